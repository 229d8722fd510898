// ReLU: out[i] = max(x[i], 0).

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 1024;

// Grid-stride loop: any grid covers any n.
__global__ void relu_kernel(const float* __restrict__ x, float* __restrict__ out, int n) {
  const int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    out[i] = fmaxf(x[i], 0.0f);
  }
}

}  // namespace

// x and out are device pointers to n floats.
extern "C" cudaError_t relu(const float* x, float* out, int n) {
  if (n <= 0) {
    return cudaSuccess;
  }
  int blocks = (n + kThreads - 1) / kThreads;
  if (blocks > kMaxBlocks) {
    blocks = kMaxBlocks;
  }
  relu_kernel<<<blocks, kThreads>>>(x, out, n);
  return cudaGetLastError();
}
