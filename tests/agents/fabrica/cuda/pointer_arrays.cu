// Smoothing steps between the two grids of an array of pointers; then the input and both grids are mixed from a table.
__global__ void smooth(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float left = i > 0 ? in[i - 1] : 0.0f;
  float right = i < n - 1 ? in[i + 1] : 0.0f;
  out[i] = 0.25f * left + 0.5f * in[i] + 0.25f * right;
}

struct Part {
  const float* values;
  float weight;
};

__global__ void mix(const float* x, const float* a, const float* b, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const Part parts[3] = {{x, 1.0f}, {a, -2.0f}, {b, 4.0f}};
  float sum = 0.0f;
  for (int k = 0; k < 3; ++k) sum += parts[k].weight * parts[k].values[i];
  y[i] = sum;
}

extern "C" void pointer_arrays(const float* x, float* y, int n, int steps) {
  float* grids[2];
  for (int k = 0; k < 2; ++k) cudaMalloc(&grids[k], n * sizeof(float));
  const float* source = x;
  for (int step = 0; step < steps; ++step) {
    float* target = grids[step % 2];
    smooth<<<(n + 15) / 16, 16>>>(source, target, n);
    source = target;
  }
  mix<<<(n + 15) / 16, 16>>>(x, grids[0], grids[1], y, n);
  for (int k = 0; k < 2; ++k) cudaFree(grids[k]);
}
