// Mean squared error: mean((pred - target)^2) over n floats.

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

__global__ void squared_error_kernel(const float* __restrict__ pred, const float* __restrict__ target, float* result, int n) {
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    const float error = pred[i] - target[i];
    sum += error * error;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    atomicAdd(result, sum);
  }
}

__global__ void mean_kernel(float* result, int n) {
  *result /= static_cast<float>(n);
}

}  // namespace

// pred and target: device pointers to n > 0 floats; result: device pointer to one float.
extern "C" cudaError_t mse_loss(const float* pred, const float* target, float* result, int n) {
  const cudaError_t status = cudaMemset(result, 0, sizeof(float));
  if (status != cudaSuccess) {
    return status;
  }
  const int blocks = (n + 4 * kThreads - 1) / (4 * kThreads);
  squared_error_kernel<<<blocks, kThreads>>>(pred, target, result, n);
  mean_kernel<<<1, 1>>>(result, n);
  return cudaGetLastError();
}
