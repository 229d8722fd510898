// Softmax of n floats, by one block.

#include <cuda_runtime.h>
#include <math_constants.h>

namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

__device__ float warp_max(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_down_sync(0xffffffffu, value, offset));
  }
  return value;
}

// Value of the whole block, in its first thread.
__device__ float block_max(float value) {
  __shared__ float partial[kThreads / kWarp];
  value = warp_max(value);
  if (threadIdx.x % kWarp == 0) {
    partial[threadIdx.x / kWarp] = value;
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {
    value = threadIdx.x < kThreads / kWarp ? partial[threadIdx.x] : -CUDART_INF_F;
    value = warp_max(value);
  }
  __syncthreads();
  return value;
}

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

__global__ void softmax_kernel(const float* __restrict__ x, float* __restrict__ out, int n) {
  __shared__ float largest;
  __shared__ float scale;
  float best = -CUDART_INF_F;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    best = fmaxf(best, x[i]);
  }
  best = block_max(best);
  if (threadIdx.x == 0) {
    largest = best;
  }
  __syncthreads();

  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float power = expf(x[i] - largest);
    out[i] = power;
    sum += power;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    scale = 1.0f / sum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    out[i] *= scale;
  }
}

}  // namespace

// x and out are device pointers to n > 0 floats.
extern "C" cudaError_t softmax(const float* x, float* out, int n) {
  softmax_kernel<<<1, kThreads>>>(x, out, n);
  return cudaGetLastError();
}
