// out[i] = x[i] / sqrt(sum(x^2) + 1e-8), by one block.

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

__global__ void norm_kernel(const float* __restrict__ x, float* __restrict__ out, int n) {
  __shared__ float scale;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    sum += x[i] * x[i];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    scale = rsqrtf(sum + 1e-8f);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    out[i] = x[i] * scale;
  }
}

}  // namespace

// All pointers: device pointers to n > 0 floats.
extern "C" cudaError_t l2_norm(const float* x, float* out, int n) {
  norm_kernel<<<1, kThreads>>>(x, out, n);
  return cudaGetLastError();
}
