// Discrete Fourier transform of N real values by two tables: one warp per frequency.

#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 128;

__device__ float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, offset);
  }
  return value;
}

__global__ void dft_kernel(const float* __restrict__ x, const float* __restrict__ cosT, const float* __restrict__ sinT,
                           float* __restrict__ Xre, float* __restrict__ Xim, int N) {
  const int lane = threadIdx.x % kWarp;
  const int k = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp;
  if (k >= N) {
    return;
  }
  float re = 0.0f;
  float im = 0.0f;
  for (int n = lane; n < N; n += kWarp) {
    re += x[n] * cosT[k * N + n];
    im += x[n] * sinT[k * N + n];
  }
  re = warp_sum(re);
  im = warp_sum(im);
  if (lane == 0) {
    Xre[k] = re;
    Xim[k] = im;
  }
}

}  // namespace

// x, Xre, Xim: device pointers to N floats; cosT, sinT: to N * N floats, row k for frequency k.
extern "C" cudaError_t dft(const float* x, const float* cosT, const float* sinT, float* Xre, float* Xim, int N) {
  const int warps_per_block = kThreads / kWarp;
  dft_kernel<<<(N + warps_per_block - 1) / warps_per_block, kThreads>>>(x, cosT, sinT, Xre, Xim, N);
  return cudaGetLastError();
}
