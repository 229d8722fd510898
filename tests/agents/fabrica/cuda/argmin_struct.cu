// Value and index in a struct, reduced in shared memory.
struct Best {
  float value;
  int index;
};
__device__ Best better(Best a, Best b) {
  if (b.value < a.value || (b.value == a.value && b.index < a.index)) return b;
  return a;
}
__global__ void argmin(const float* x, int* where, int n) {
  __shared__ float values[64];
  __shared__ int indices[64];
  Best mine;
  mine.value = 3.0e38f;
  mine.index = -1;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    Best other = {x[i], i};
    mine = better(mine, other);
  }
  values[threadIdx.x] = mine.value;
  indices[threadIdx.x] = mine.index;
  __syncthreads();
  for (int s = 32; s > 0; s >>= 1) {
    if (threadIdx.x < s) {
      Best a = {values[threadIdx.x], indices[threadIdx.x]};
      Best b = {values[threadIdx.x + s], indices[threadIdx.x + s]};
      Best c = better(a, b);
      values[threadIdx.x] = c.value;
      indices[threadIdx.x] = c.index;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) where[0] = indices[0];
}
extern "C" void argmin_struct(const float* x, int* where, int n) { argmin<<<1, 64>>>(x, where, n); }
