// SAXPY: y[i] = alpha * x[i] + y[i], in place.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 1024;

__global__ void saxpy_kernel(float alpha, const float* __restrict__ x, float* __restrict__ y, int n) {
  const int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    y[i] = alpha * x[i] + y[i];
  }
}

}  // namespace

// x and y are device pointers to n floats; they must not overlap.
extern "C" cudaError_t saxpy(float alpha, const float* x, float* y, int n) {
  if (n <= 0) {
    return cudaSuccess;
  }
  int blocks = (n + kThreads - 1) / kThreads;
  if (blocks > kMaxBlocks) {
    blocks = kMaxBlocks;
  }
  saxpy_kernel<<<blocks, kThreads>>>(alpha, x, y, n);
  return cudaGetLastError();
}
