// y = A x: a block for each group of rows_per_pe rows, a warp for a row.

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

__global__ void gemv_rows_kernel(const float* __restrict__ A, const float* __restrict__ x, float* __restrict__ y,
                                 int rows_per_pe, int N) {
  const int lane = threadIdx.x % kWarp;
  for (int r = threadIdx.x / kWarp; r < rows_per_pe; r += blockDim.x / kWarp) {
    const int row = blockIdx.x * rows_per_pe + r;
    float sum = 0.0f;
    for (int col = lane; col < N; col += kWarp) {
      sum += A[row * N + col] * x[col];
    }
    sum = warp_sum(sum);
    if (lane == 0) {
      y[row] = sum;
    }
  }
}

}  // namespace

// A: Py * rows_per_pe rows of N floats; x: N floats; y: Py * rows_per_pe floats; all on the device.
extern "C" cudaError_t gemv_rows(const float* A, const float* x, float* y, int Py, int rows_per_pe, int N) {
  gemv_rows_kernel<<<Py, kThreads>>>(A, x, y, rows_per_pe, N);
  return cudaGetLastError();
}
