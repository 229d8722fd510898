// The number of steps is only known when the program runs, so the buffers are chosen then.
__global__ void halve(const float* in, float* out, int n, int turn) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 0.5f * in[i] + turn;
}
extern "C" void pingpong_counted_late(const float* x, float* y, const int* count, int n) {
  float *a, *b;
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc(&b, n * sizeof(float));
  cudaMemcpy(a, x, n * sizeof(float), cudaMemcpyDeviceToDevice);
  int steps = count[0];
  float* from = a;
  float* to = b;
  for (int t = 0; t < steps; ++t) {
    halve<<<(n + 15) / 16, 16>>>(from, to, n, t);
    float* old = from;
    from = to;
    to = old;
  }
  int more = 3;
  while (more > 0) {
    float* next = more % 2 ? to : from;
    halve<<<(n + 15) / 16, 16>>>(from, next, n, more);
    if (next != from) {
      to = from;
      from = next;
    }
    --more;
  }
  cudaMemcpy(y, from, n * sizeof(float), cudaMemcpyDeviceToDevice);
}
