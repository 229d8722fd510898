// Histogram: hist[(v / bucket_size) % n_buckets] counts the values v.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;

// Every block counts its part in shared memory and adds its counts to the result.
__global__ void histogram_kernel(const unsigned int* __restrict__ input, unsigned int* hist, int n_per_pe, int n_buckets,
                                 int bucket_size) {
  extern __shared__ unsigned int counts[];
  for (int b = threadIdx.x; b < n_buckets; b += blockDim.x) {
    counts[b] = 0;
  }
  __syncthreads();
  const unsigned int* part = input + static_cast<size_t>(blockIdx.x) * n_per_pe;
  for (int i = threadIdx.x; i < n_per_pe; i += blockDim.x) {
    const unsigned int bucket = part[i] / static_cast<unsigned int>(bucket_size) % static_cast<unsigned int>(n_buckets);
    atomicAdd(&counts[bucket], 1u);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < n_buckets; b += blockDim.x) {
    atomicAdd(&hist[b], counts[b]);
  }
}

}  // namespace

// input: device pointer to Py * n_per_pe words; hist: device pointer to n_buckets words.
extern "C" cudaError_t histogram_parts(const unsigned int* input, unsigned int* hist, int Py, int n_per_pe, int n_buckets,
                                       int bucket_size) {
  const size_t bytes = static_cast<size_t>(n_buckets) * sizeof(unsigned int);
  const cudaError_t status = cudaMemset(hist, 0, bytes);
  if (status != cudaSuccess) {
    return status;
  }
  histogram_kernel<<<Py, kThreads, bytes>>>(input, hist, n_per_pe, n_buckets, bucket_size);
  return cudaGetLastError();
}
