// The bits of a number that is known when compiling.
__global__ void k(const float* x, int* y, int n) { int i = threadIdx.x; if (i < n) y[i] = __float_as_int(1.0f) - __float_as_int(x[i]); }
extern "C" void bits_of_constant(const float* x, int* y, int n) { k<<<1, 64>>>(x, y, n); }
