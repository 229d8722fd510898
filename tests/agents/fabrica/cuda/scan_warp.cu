// Inclusive scan: shuffles inside warps, a scan of the warp totals, one block.
__global__ void scan_kernel(const float* x, float* out, int n) {
  __shared__ float totals[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float v = threadIdx.x < n ? x[threadIdx.x] : 0.f;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    float up = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += up;
  }
  if (lane == 31) totals[warp] = v;
  __syncthreads();
  if (warp == 0) {
    float t = lane < (blockDim.x >> 5) ? totals[lane] : 0.f;
    for (int d = 1; d < 32; d <<= 1) {
      float up = __shfl_up_sync(0xffffffffu, t, d);
      if (lane >= d) t += up;
    }
    totals[lane] = t;
  }
  __syncthreads();
  if (warp > 0) v += totals[warp - 1];
  if (threadIdx.x < n) out[threadIdx.x] = v;
}
extern "C" void scan_warp(const float* x, float* out, int n) { scan_kernel<<<1, 256>>>(x, out, n); }
