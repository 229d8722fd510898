// A smoothing step whose buffers follow from the number of the step; the last one writes the output.
__global__ void smooth(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float left = i > 0 ? in[i - 1] : 0.0f;
  float right = i < n - 1 ? in[i + 1] : 0.0f;
  out[i] = 0.25f * left + 0.5f * in[i] + 0.25f * right;
}
extern "C" void pingpong_parity(const float* x, float* y, int n, int steps) {
  float* spare = nullptr;
  if (steps > 1) cudaMalloc(&spare, n * sizeof(float));
  const float* source = x;
  for (int left = steps; left > 0; --left) {
    float* target = left % 2 == 1 ? y : spare;
    smooth<<<(n + 15) / 16, 16>>>(source, target, n);
    source = target;
  }
  cudaFree(spare);
}
