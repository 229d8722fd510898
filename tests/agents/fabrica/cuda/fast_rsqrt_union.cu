// The old trick with the bits of a float, through a union, and two rounds of Newton.
union Bits {
  float f;
  int i;
};

static __device__ __forceinline__ float quick_rsqrt(const float x) {
  Bits b;
  b.f = x;
  b.i = 0x5f3759df - (b.i >> 1);
  float y = b.f;
  y *= 1.5f - 0.5f * x * y * y;
  y *= 1.5f - 0.5f * x * y * y;
  return y;
}

__global__ void __launch_bounds__(64) normalize3(const float3* __restrict__ in, float3* __restrict__ out, unsigned n) {
  const unsigned stride = gridDim.x * blockDim.x;
  unsigned tid = threadIdx.x + blockDim.x * blockIdx.x;
  if (tid >= n) return;
  do {
    const float3 v = in[tid];
    const float r = quick_rsqrt(v.x * v.x + v.y * v.y + v.z * v.z + 1e-3f);
    out[tid] = make_float3(v.x * r, v.y * r, v.z * r);
    tid += stride;
  } while (tid < n);
}

extern "C" void fast_rsqrt_union(const float* v, float* unit, int n) {
  normalize3<<<2, 64>>>(reinterpret_cast<const float3*>(v), reinterpret_cast<float3*>(unit), (unsigned)n);
}
