// Private histogram in shared memory, merged with atomics.
#define BINS 16
__global__ void hist(const int* data, int* bins, int n) {
  __shared__ int local[BINS];
  if (threadIdx.x < BINS) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int v = data[i];
    if (v >= 0 && v < BINS) atomicAdd(&local[v], 1);
  }
  __syncthreads();
  if (threadIdx.x < BINS) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
extern "C" void histogram_shared(const int* data, int* bins, int n) {
  cudaMemset(bins, 0, BINS * sizeof(int));
  hist<<<2, 64>>>(data, bins, n);
}
