// Arithmetic in double by way of literals.
#include <math.h>
__global__ void silu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i];
    y[i] = v / (1.0 + exp(-v));
  }
}
extern "C" void silu_double(const float* x, float* y, int n) { silu<<<(n + 255) / 256, 256>>>(x, y, n); }
