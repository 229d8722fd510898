// Constants that are no arrays, set from a parameter and a local variable, and read back.
__constant__ float alpha; __constant__ int count;
__global__ void k(const float* x, float* y) { int i = threadIdx.x; if (i < count) y[i] = alpha * x[i] + count; }
extern "C" void constant_scalars(const float* x, float* y, float* last, int n) {
  float a = 1.5f;
  cudaMemcpyToSymbol(alpha, &a, sizeof(float));
  cudaMemcpyToSymbol(count, &n, sizeof(int));
  k<<<1, 32>>>(x, y);
  cudaMemcpyFromSymbol(last, alpha, sizeof(float));
}
