// Largest of n floats.

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

__global__ void max_kernel(const float* __restrict__ x, float* __restrict__ result, int n) {
  float best = -CUDART_INF_F;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    best = fmaxf(best, x[i]);
  }
  best = block_max(best);
  if (threadIdx.x == 0) {
    *result = best;
  }
}

}  // namespace

// x: device pointer to n > 0 floats; result: device pointer to one float.
extern "C" cudaError_t max_reduction(const float* x, float* result, int n) {
  max_kernel<<<1, kThreads>>>(x, result, n);
  return cudaGetLastError();
}
