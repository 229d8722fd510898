// 16-bit floats.
#include <cuda_fp16.h>
__global__ void scale(const __half* x, __half* y, int n, float s) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __float2half(__half2float(x[i]) * s);
}
extern "C" void half_scale(const __half* x, __half* y, int n) { scale<<<(n + 63) / 64, 64>>>(x, y, n, 2.5f); }
