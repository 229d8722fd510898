// Infinity norm of b - A x: a warp per row, then the largest of all rows.

#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 128;

// largest: bits of the largest |b - A x| so far. Floats that are not negative are in the order of their bits.
__global__ void residual_kernel(const float* __restrict__ A, const float* __restrict__ x, const float* __restrict__ b,
                                unsigned int* largest, int rows, int cols) {
  const int row = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (row >= rows) {
    return;  // a whole warp
  }
  float sum = 0.0f;
  for (int col = lane; col < cols; col += kWarp) {
    sum += A[static_cast<size_t>(row) * cols + col] * x[col];
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, offset);
  }
  if (lane == 0) {
    atomicMax(largest, __float_as_uint(fabsf(b[row] - sum)));
  }
}

}  // namespace

// A: (height * LOCAL_OUT_SZ) x (width * LOCAL_IN_SZ) floats, row-major; x: as many floats as A has columns; b: as many as
// it has rows; nrm: one float; all on the device.
extern "C" cudaError_t residual_norm(const float* A, const float* x, const float* b, float* nrm, int width, int height,
                                     int LOCAL_OUT_SZ, int LOCAL_IN_SZ) {
  const int rows = height * LOCAL_OUT_SZ;
  const int cols = width * LOCAL_IN_SZ;
  const int rows_per_block = kThreads / kWarp;
  const cudaError_t status = cudaMemset(nrm, 0, sizeof(float));
  if (status != cudaSuccess) {
    return status;
  }
  residual_kernel<<<(rows + rows_per_block - 1) / rows_per_block, kThreads>>>(
      A, x, b, reinterpret_cast<unsigned int*>(nrm), rows, cols);
  return cudaGetLastError();
}
