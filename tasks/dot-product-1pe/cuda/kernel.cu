// Inner product of two vectors of n floats.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

__device__ float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, offset);
  }
  return value;
}

// Value of the whole block, in its first thread.
__device__ float block_sum(float value) {
  __shared__ float partial[kThreads / kWarp];
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) {
    partial[threadIdx.x / kWarp] = value;
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {
    value = threadIdx.x < kThreads / kWarp ? partial[threadIdx.x] : 0.0f;
    value = warp_sum(value);
  }
  __syncthreads();
  return value;
}

__global__ void dot_kernel(const float* __restrict__ x, const float* __restrict__ y, float* result, int n) {
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    sum += x[i] * y[i];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    atomicAdd(result, sum);
  }
}

}  // namespace

// x and y: device pointers to n floats; result: device pointer to one float.
extern "C" cudaError_t dot_product(const float* x, const float* y, float* result, int n) {
  const cudaError_t status = cudaMemset(result, 0, sizeof(float));
  if (status != cudaSuccess) {
    return status;
  }
  const int blocks = (n + 4 * kThreads - 1) / (4 * kThreads);
  dot_kernel<<<blocks, kThreads>>>(x, y, result, n);
  return cudaGetLastError();
}
