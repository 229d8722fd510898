// Float maximum by compare-and-swap on the bits.
__device__ float atomicMaxFloat(float* address, float val) {
  int* address_as_int = (int*)address;
  int old = *address_as_int, assumed;
  do {
    assumed = old;
    old = atomicCAS(address_as_int, assumed, __float_as_int(fmaxf(val, __int_as_float(assumed))));
  } while (assumed != old);
  return __int_as_float(old);
}
__global__ void init(float* m) { m[0] = -3.402823466e+38f; }
__global__ void max_kernel(const float* x, float* m, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) atomicMaxFloat(m, x[i]);
}
extern "C" void max_cas(const float* x, float* result, int n) {
  init<<<1, 1>>>(result);
  max_kernel<<<(n + 31) / 32, 32>>>(x, result, n);
}
