// Histogram: hist[(v / bucket_size) % n_buckets] counts the values v.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;

// Every block counts in shared memory and adds its counts to the result.
__global__ void histogram_kernel(const unsigned int* __restrict__ input, unsigned int* hist, int n, int n_buckets,
                                 int bucket_size) {
  extern __shared__ unsigned int counts[];
  for (int b = threadIdx.x; b < n_buckets; b += blockDim.x) {
    counts[b] = 0;
  }
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    const unsigned int bucket = input[i] / static_cast<unsigned int>(bucket_size) % static_cast<unsigned int>(n_buckets);
    atomicAdd(&counts[bucket], 1u);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < n_buckets; b += blockDim.x) {
    atomicAdd(&hist[b], counts[b]);
  }
}

}  // namespace

// input: device pointer to n words; hist: device pointer to n_buckets words.
extern "C" cudaError_t histogram(const unsigned int* input, unsigned int* hist, int n, int n_buckets, int bucket_size) {
  const size_t bytes = static_cast<size_t>(n_buckets) * sizeof(unsigned int);
  const cudaError_t status = cudaMemset(hist, 0, bytes);
  if (status != cudaSuccess) {
    return status;
  }
  const int blocks = (n + 4 * kThreads - 1) / (4 * kThreads);
  histogram_kernel<<<blocks, kThreads, bytes>>>(input, hist, n, n_buckets, bucket_size);
  return cudaGetLastError();
}
