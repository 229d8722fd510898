// Cross entropy of one sample with n_classes logits, by one block.

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

__global__ void cross_entropy_kernel(const float* __restrict__ logits, unsigned int label, float* __restrict__ result,
                                     int n_classes) {
  __shared__ float largest;
  float best = -CUDART_INF_F;
  for (int i = threadIdx.x; i < n_classes; i += blockDim.x) {
    best = fmaxf(best, logits[i]);
  }
  best = block_max(best);
  if (threadIdx.x == 0) {
    largest = best;
  }
  __syncthreads();

  float sum = 0.0f;
  for (int i = threadIdx.x; i < n_classes; i += blockDim.x) {
    sum += expf(logits[i] - largest);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    *result = logf(sum) - (logits[label] - largest);
  }
}

}  // namespace

// logits: device pointer to n_classes > 0 floats; label < n_classes; result: device pointer to one float.
extern "C" cudaError_t cross_entropy(const float* logits, unsigned int label, float* result, int n_classes) {
  cross_entropy_kernel<<<1, kThreads>>>(logits, label, result, n_classes);
  return cudaGetLastError();
}
