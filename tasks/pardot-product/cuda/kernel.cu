// Inner product of width * n_per_pe floats: one block per chunk, then a tree over the chunk sums.

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

// partial[k] = inner product of the chunks k.
__global__ void dot_chunks_kernel(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ partial,
                                  int n_per_pe) {
  __shared__ float warp_sums[kThreads / kWarp];
  const size_t first = static_cast<size_t>(blockIdx.x) * n_per_pe;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n_per_pe; i += blockDim.x) {
    sum += x[first + i] * y[first + i];
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) {
    warp_sums[threadIdx.x / kWarp] = sum;
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {
    sum = threadIdx.x < kThreads / kWarp ? warp_sums[threadIdx.x] : 0.0f;
    sum = warp_sum(sum);
    if (threadIdx.x == 0) {
      partial[blockIdx.x] = sum;
    }
  }
}

// Binary tree: in the round of stride s, entry k takes in entry k + s for every k that is a multiple of 2 s.
__global__ void sum_tree_kernel(float* partial, float* result, int count) {
  for (int stride = 1; stride < count; stride *= 2) {
    for (int k = threadIdx.x * 2 * stride; k + stride < count; k += blockDim.x * 2 * stride) {
      partial[k] += partial[k + stride];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    *result = partial[0];
  }
}

}  // namespace

// x and y: device pointers to width * n_per_pe floats; result: device pointer to one float.
extern "C" cudaError_t parallel_dot(const float* x, const float* y, float* result, int width, int n_per_pe) {
  float* partial = nullptr;
  cudaError_t status = cudaMalloc(&partial, static_cast<size_t>(width) * sizeof(float));
  if (status != cudaSuccess) {
    return status;
  }
  dot_chunks_kernel<<<width, kThreads>>>(x, y, partial, n_per_pe);
  sum_tree_kernel<<<1, kWarp>>>(partial, result, width);
  status = cudaGetLastError();
  cudaFree(partial);  // waits for the kernels
  return status;
}
