// Functions that look at the sign bit.
__global__ void k(const float* x, float* z, int n) {
  int i = threadIdx.x;
  if (i < n) { float v = x[i]; z[i] = fmodf(10.f * v, 3.f) + copysignf(1.5f, v) + (signbit(v) ? 1.0f : 0.0f); }
}
extern "C" void sign_bits(const float* x, float* z, int n) { k<<<1, 32>>>(x, z, n); }
