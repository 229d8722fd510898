// Buffers set in the branches of an `if` on the step's parity, and swapped through a temporary in every third step.
__global__ void shift(const float* from, float* to, int n, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = 0.5f * from[(i + by) % n] + 1.0f;
}
extern "C" void pingpong_branches(float* a, float* b, int n, int steps) {
  for (int it = 0; it < steps; ++it) {
    const float* from;
    float* to;
    if (it & 1) {
      from = b;
      to = a;
    } else {
      from = a;
      to = b;
    }
    shift<<<(n + 31) / 32, 32>>>(from, to, n, it);
  }
  float* p = a;
  float* q = b;
  for (int it = 1; it <= steps; ++it) {
    if (it % 2 == 0) {
      float* t = p;
      p = q;
      q = t;
    }
    shift<<<(n + 31) / 32, 32>>>(p, q, n, 2);
  }
}
