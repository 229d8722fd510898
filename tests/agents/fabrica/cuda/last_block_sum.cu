// The last block to finish adds up the partial sums: a counter and a fence.
__device__ unsigned int retired = 0;
__global__ void sum(const float* x, float* partial, float* total, int n) {
  __shared__ bool last;
  float s = 0.f;
  if (threadIdx.x == 0) {
    for (int i = blockIdx.x; i < n; i += gridDim.x) s += x[i];
    partial[blockIdx.x] = s;
    __threadfence();
    unsigned int ticket = atomicInc(&retired, gridDim.x);
    last = ticket == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float t = 0.f;
    for (int b = 0; b < gridDim.x; ++b) t += partial[b];
    *total = t;
    retired = 0;
  }
}
extern "C" void last_block_sum(const float* x, float* total, int n) {
  float* partial;
  cudaMalloc(&partial, 8 * sizeof(float));
  sum<<<8, 32>>>(x, partial, total, n);
  cudaFree(partial);
}
