// Mean and variance of each row in one pass; partial moments of the lanes are merged with shuffles.
struct Moments {
  float mean, m2;
  int n;
  __device__ void push(float x) {
    ++n;
    const float d = x - mean;
    mean += d / (float)n;
    m2 += d * (x - mean);
  }
};

__device__ Moments merge(Moments a, Moments b) {
  const int n = a.n + b.n;
  if (n == 0) return a;
  const float d = b.mean - a.mean;
  const float share = (float)b.n / (float)n;
  Moments r;
  r.mean = a.mean + d * share;
  r.m2 = a.m2 + b.m2 + d * d * (float)a.n * share;
  r.n = n;
  return r;
}

__global__ void row_moments(const float* x, float* mean, float* variance, int cols) {
  Moments m = {0.f, 0.f, 0};
  for (int c = threadIdx.x; c < cols; c += 32) m.push(x[blockIdx.x * cols + c]);
  for (int d = 1; d < 32; d <<= 1) {
    Moments o;
    o.mean = __shfl_xor_sync(~0u, m.mean, d);
    o.m2 = __shfl_xor_sync(~0u, m.m2, d);
    o.n = __shfl_xor_sync(~0u, m.n, d);
    m = merge(m, o);
  }
  if (!threadIdx.x) {
    mean[blockIdx.x] = m.mean;
    variance[blockIdx.x] = m.m2 / (float)m.n;
  }
}

extern "C" void welford_struct(const float* x, float* mean, float* variance, int rows, int cols) {
  row_moments<<<rows, 32>>>(x, mean, variance, cols);
}
