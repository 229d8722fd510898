// Segmented scan with flags in shared memory.
__global__ void seg(const int* x, const int* f, int* y, int n) {
  __shared__ int v[64]; __shared__ bool h[64];
  int t = threadIdx.x;
  v[t] = x[t]; h[t] = f[t];
  __syncthreads();
  for (int d = 1; d < 64; d <<= 1) {
    int nv = v[t]; bool nh = h[t];
    if (t >= d) { if (!nh) nv += v[t - d]; nh |= h[t - d]; }
    __syncthreads();
    v[t] = nv; h[t] = nh;
    __syncthreads();
  }
  y[t] = v[t];
}
extern "C" void scan_segmented(const int* x, const int* f, int* y, int n) { seg<<<1, 64>>>(x, f, y, n); }
