// Device function, early return.
__device__ __forceinline__ float leaky(float v, float slope) { return v > 0.f ? v : slope * v; }
__global__ void leaky_kernel(const float* x, float* y, int n) {
  const int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i >= n) return;
  y[i] = leaky(x[i], 0.01f);
}
extern "C" void leaky_relu(const float* x, float* y, int n) {
  dim3 block(96);
  dim3 grid((n + block.x - 1) / block.x);
  leaky_kernel<<<grid, block>>>(x, y, n);
}
