// Arrays with names that a compute file may want for itself.
__global__ void k(const unsigned* clz, const float* math, float* position, float* i, const float* window, float* i1, const float* i0, int n) {
  int t = threadIdx.x;
  if (t < n) { position[t] = expf(math[t]) + __clz(clz[t]); i[t] = 2.0f * window[t] + 1.0f;  for (int j = 0; j < n; ++j) i1[t * n + j] = i0[t] + window[j]; }
}
extern "C" void taken_names(const unsigned* clz, const float* math, float* position, float* i, const float* window, float* i1, const float* i0, int n) { k<<<1, 64>>>(clz, math, position, i, window, i1, i0, n); }
