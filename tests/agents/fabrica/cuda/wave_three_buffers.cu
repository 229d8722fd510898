// Three time levels in turn: the host moves pointers around a ring.
__global__ void wave(const float* p, const float* c, float* next, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  next[i] = (i == 0 || i == n - 1) ? 0.0f : 2.0f * c[i] - p[i] + 0.1f * (c[i - 1] - 2.0f * c[i] + c[i + 1]);
}
extern "C" void wave_three_buffers(const float* x, float* y, int n, int steps) {
  float *past, *now, *next;
  size_t bytes = n * sizeof(float);
  cudaMalloc(&past, bytes);
  cudaMalloc(&now, bytes);
  cudaMalloc(&next, bytes);
  cudaMemcpy(past, x, bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(now, x, bytes, cudaMemcpyHostToDevice);
  for (int t = 0; t < steps; ++t) {
    wave<<<(n + 15) / 16, 16>>>(past, now, next, n);
    float* oldest = past;
    past = now;
    now = next;
    next = oldest;
  }
  cudaMemcpy(y, now, bytes, cudaMemcpyDeviceToHost);
  cudaFree(past);
  cudaFree(now);
  cudaFree(next);
}
