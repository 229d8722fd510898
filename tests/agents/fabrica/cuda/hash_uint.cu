// Unsigned wrap-around arithmetic and shifts.
__device__ unsigned int mix(unsigned int h) {
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  h ^= h >> 16;
  return h;
}
__global__ void hash_kernel(const unsigned int* in, unsigned int* out, int n, unsigned int seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = mix(in[i] + seed * 2654435761u);
}
extern "C" void hash_uint(const unsigned int* in, unsigned int* out, int n) {
  hash_kernel<<<(n + 63) / 64, 64>>>(in, out, n, 17u);
}
