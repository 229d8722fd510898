// A `break` inside a branch of a case.
__global__ void k(const float* x, const int* op, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i], r = v;
  switch (op[i]) {
    case 0:
      if (v < 0) { r = -v; break; }
      r = v * 2.0f;
      break;
    case 1: r += 1; break;
    case 2:
    case 3: { r = -v; break; }
    default: r = 9.0f;
  }
  y[i] = r;
}
extern "C" void switch_early_break(const float* x, const int* op, float* y, int n) { k<<<2, 32>>>(x, op, y, n); }
