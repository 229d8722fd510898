// Softmax of width * n_per_pe floats, one block per chunk: maxima, sums of exponentials, scaling.

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

// Largest of `width` values, the same in every thread.
__device__ float largest_of(const float* values, int width) {
  float best = values[0];
  for (int k = 1; k < width; ++k) {
    best = fmaxf(best, values[k]);
  }
  return best;
}

__global__ void max_kernel(const float* __restrict__ x, float* maxima, int n_per_pe) {
  const float* chunk = x + static_cast<size_t>(blockIdx.x) * n_per_pe;
  float best = -CUDART_INF_F;
  for (int i = threadIdx.x; i < n_per_pe; i += blockDim.x) {
    best = fmaxf(best, chunk[i]);
  }
  best = block_max(best);
  if (threadIdx.x == 0) {
    maxima[blockIdx.x] = best;
  }
}

__global__ void exp_kernel(const float* __restrict__ x, float* __restrict__ out, const float* maxima, float* sums,
                           int n_per_pe) {
  const size_t first = static_cast<size_t>(blockIdx.x) * n_per_pe;
  const float largest = largest_of(maxima, gridDim.x);
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n_per_pe; i += blockDim.x) {
    const float power = expf(x[first + i] - largest);
    out[first + i] = power;
    sum += power;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;
  }
}

__global__ void scale_kernel(float* __restrict__ out, const float* sums, int n_per_pe) {
  float sum = 0.0f;
  for (int k = 0; k < static_cast<int>(gridDim.x); ++k) {
    sum += sums[k];
  }
  const float scale = 1.0f / sum;
  float* chunk = out + static_cast<size_t>(blockIdx.x) * n_per_pe;
  for (int i = threadIdx.x; i < n_per_pe; i += blockDim.x) {
    chunk[i] *= scale;
  }
}

}  // namespace

// x and out: device pointers to width * n_per_pe floats.
extern "C" cudaError_t row_softmax(const float* x, float* out, int width, int n_per_pe) {
  float* maxima = nullptr;
  cudaError_t status = cudaMalloc(&maxima, 2 * static_cast<size_t>(width) * sizeof(float));
  if (status != cudaSuccess) {
    return status;
  }
  float* sums = maxima + width;
  max_kernel<<<width, kThreads>>>(x, maxima, n_per_pe);
  exp_kernel<<<width, kThreads>>>(x, out, maxima, sums, n_per_pe);
  scale_kernel<<<width, kThreads>>>(out, sums, n_per_pe);
  status = cudaGetLastError();
  cudaFree(maxima);  // waits for the kernels
  return status;
}
