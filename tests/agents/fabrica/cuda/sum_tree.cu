// Tree reduction in shared memory, one atomic per block.
__global__ void zero(float* out) { *out = 0.0f; }
__global__ void sum_kernel(const float* x, float* out, int n) {
  extern __shared__ float s[];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[tid] = (i < n) ? x[i] : 0.0f;
  __syncthreads();
  for (unsigned int d = blockDim.x / 2; d > 0; d >>= 1) {
    if (tid < d) s[tid] += s[tid + d];
    __syncthreads();
  }
  if (tid == 0) atomicAdd(out, s[0]);
}
extern "C" void sum_tree(const float* x, float* total, int n) {
  const int threads = 64;
  zero<<<1, 1>>>(total);
  sum_kernel<<<(n + threads - 1) / threads, threads, threads * sizeof(float)>>>(x, total, n);
}
