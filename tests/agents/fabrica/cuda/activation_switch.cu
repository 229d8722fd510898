// An enum and a switch choose the function.
enum Mode { IDENTITY, SQUARE, CLAMP };
__device__ float apply(float v, int mode) {
  float r;
  switch (mode) {
    case IDENTITY:
      r = v;
      break;
    case SQUARE:
      r = v * v;
      break;
    case CLAMP:
    default:
      r = fminf(fmaxf(v, -1.0f), 1.0f);
      break;
  }
  return r;
}
__global__ void run(const float* x, const int* mode, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = apply(x[i], mode[i]);
}
extern "C" void activation_switch(const float* x, const int* mode, float* y, int n) {
  run<<<(n + 31) / 32, 32>>>(x, mode, y, n);
}
