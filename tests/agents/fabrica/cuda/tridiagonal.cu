// Thomas algorithm: one system per thread, coefficients in registers.
#define MAXN 32
__global__ void tri(const float* a, const float* b, const float* c, const float* d, float* x, int sys, int n) {
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= sys) return;
  float cp[MAXN], dp[MAXN];
  a += q * n; b += q * n; c += q * n; d += q * n; x += q * n;
  cp[0] = c[0] / b[0]; dp[0] = d[0] / b[0];
  for (int i = 1; i < n; i++) {
    float m = 1.0f / (b[i] - a[i] * cp[i - 1]);
    cp[i] = c[i] * m;
    dp[i] = (d[i] - a[i] * dp[i - 1]) * m;
  }
  x[n - 1] = dp[n - 1];
  for (int i = n - 2; i >= 0; i--) x[i] = dp[i] - cp[i] * x[i + 1];
}
extern "C" void tridiagonal(const float* a, const float* b, const float* c, const float* d, float* x, int sys, int n) { tri<<<1, 32>>>(a, b, c, d, x, sys, n); }
