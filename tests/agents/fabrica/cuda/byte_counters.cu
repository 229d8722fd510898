// Counting in 8 bits wraps.
__global__ void k(const int* x, int* y, int n) {
  int i = threadIdx.x; if (i >= n) return;
  unsigned char c = 0; for (int k = 0; k < x[i]; ++k) ++c;
  signed char d = 0; for (int k = 0; k < x[i]; ++k) d--;
  y[i] = c + ((unsigned char)(c + d) != 0 ? 1000 : 0);
}
extern "C" void byte_counters(const int* x, int* y, int n) { k<<<1, 32>>>(x, y, n); }
