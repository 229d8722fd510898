// Sort in shared memory, one block.
__global__ void bitonic(float* values) {
  extern __shared__ float s[];
  const unsigned int tid = threadIdx.x;
  s[tid] = values[tid];
  __syncthreads();
  for (unsigned int k = 2; k <= blockDim.x; k *= 2) {
    for (unsigned int j = k / 2; j > 0; j /= 2) {
      unsigned int ixj = tid ^ j;
      if (ixj > tid) {
        if ((tid & k) == 0) {
          if (s[tid] > s[ixj]) {
            float t = s[tid];
            s[tid] = s[ixj];
            s[ixj] = t;
          }
        } else {
          if (s[tid] < s[ixj]) {
            float t = s[tid];
            s[tid] = s[ixj];
            s[ixj] = t;
          }
        }
      }
      __syncthreads();
    }
  }
  values[tid] = s[tid];
}
extern "C" void bitonic_sort(float* x, int n) { bitonic<<<1, n, n * sizeof(float)>>>(x); }
