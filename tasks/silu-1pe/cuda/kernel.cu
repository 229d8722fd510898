// Sigmoid linear unit: out[i] = x / (1 + exp(-x)).

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 1024;

// Grid-stride loop: any grid covers any n.
__global__ void silu_kernel(const float* __restrict__ x, float* __restrict__ out, int n) {
  const int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float v = x[i];
    out[i] = v / (1.0f + expf(-v));
  }
}

}  // namespace

// x and out are device pointers to n > 0 floats.
extern "C" cudaError_t silu(const float* x, float* out, int n) {
  int blocks = (n + kThreads - 1) / kThreads;
  if (blocks > kMaxBlocks) {
    blocks = kMaxBlocks;
  }
  silu_kernel<<<blocks, kThreads>>>(x, out, n);
  return cudaGetLastError();
}
