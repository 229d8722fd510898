// Arithmetic in types narrower than int, and one wider.
#include <cstdint>
__global__ void w(const int* x, int* y, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  uint8_t b = x[i];
  int8_t sb = (int8_t)x[i];
  short sh = (short)x[i];
  int8_t t = sb * 3;
  uint16_t q = sh * sh;
  long long ll = (long long)x[i] * 1000003LL;
  int m = (int)(ll >> 20);
  y[i] = (t + q + (b >> 3) + (sb >> 2)) ^ m;
}
extern "C" void narrow_integers(const int* x, int* y, int n) { w<<<1, 64>>>(x, y, n); }
