// Histogram over all values: bucket (v / BUCKET_SIZE) % (number of buckets) counts value v.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;

// Every block counts its part in shared memory, then adds its counts to the result, and how many they are to the total.
__global__ void histogram_kernel(const unsigned int* __restrict__ inputs, unsigned int* buckets, unsigned int* total,
                                 int per_block, int n_buckets, int bucket_size) {
  extern __shared__ unsigned int counts[];
  __shared__ unsigned int counted;
  for (int b = threadIdx.x; b < n_buckets; b += blockDim.x) {
    counts[b] = 0;
  }
  if (threadIdx.x == 0) {
    counted = 0;
  }
  __syncthreads();

  const unsigned int* part = inputs + static_cast<size_t>(blockIdx.x) * per_block;
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) {
    const unsigned int bucket = part[i] / static_cast<unsigned int>(bucket_size) % static_cast<unsigned int>(n_buckets);
    atomicAdd(&counts[bucket], 1u);
  }
  __syncthreads();

  for (int b = threadIdx.x; b < n_buckets; b += blockDim.x) {
    if (counts[b] != 0) {
      atomicAdd(&buckets[b], counts[b]);
      atomicAdd(&counted, counts[b]);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(total, counted);
  }
}

}  // namespace

// inputs: device pointer to HIST_HEIGHT * HIST_WIDTH * INPUT_SIZE words; buckets: to HIST_HEIGHT * HIST_WIDTH * NUM_BUCKETS
// words; result: to one word, the number of values counted.
extern "C" cudaError_t distributed_histogram(const unsigned int* inputs, unsigned int* buckets, unsigned int* result,
                                             int HIST_WIDTH, int HIST_HEIGHT, int INPUT_SIZE, int NUM_BUCKETS,
                                             int BUCKET_SIZE) {
  const int blocks = HIST_WIDTH * HIST_HEIGHT;
  const int n_buckets = blocks * NUM_BUCKETS;
  const size_t bytes = static_cast<size_t>(n_buckets) * sizeof(unsigned int);
  cudaError_t status = cudaMemset(buckets, 0, bytes);
  if (status == cudaSuccess) {
    status = cudaMemset(result, 0, sizeof(unsigned int));
  }
  if (status != cudaSuccess) {
    return status;
  }
  histogram_kernel<<<blocks, kThreads, bytes>>>(inputs, buckets, result, INPUT_SIZE, n_buckets, BUCKET_SIZE);
  return cudaGetLastError();
}
