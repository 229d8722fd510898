// y = A x + b: a warp for each row; its lanes read the row side by side and add up their sums by shuffles.

#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kRowsPerBlock = 4;

__global__ void gemv_bias_kernel(const float* __restrict__ A, const float* __restrict__ x, const float* __restrict__ b,
                                 float* __restrict__ y, int rows, int cols) {
  const int lane = threadIdx.x;
  const int row = blockIdx.x * kRowsPerBlock + threadIdx.y;
  if (row >= rows) {
    return;  // the whole warp: all of its lanes have this row
  }
  const float* own = A + static_cast<size_t>(row) * cols;
  float sum = 0.0f;
  for (int col = lane; col < cols; col += kWarp) {
    sum = fmaf(own[col], x[col], sum);
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  if (lane == 0) {
    y[row] = sum + b[row];
  }
}

}  // namespace

// A: matrix_rows x matrix_cols floats, row-major; x: matrix_cols, b and y: matrix_rows floats; all on the device.
extern "C" cudaError_t gemv_bias(const float* A, const float* x, const float* b, float* y, int matrix_rows,
                                 int matrix_cols) {
  const dim3 threads(kWarp, kRowsPerBlock);
  const int blocks = (matrix_rows + kRowsPerBlock - 1) / kRowsPerBlock;
  gemv_bias_kernel<<<blocks, threads>>>(A, x, b, y, matrix_rows, matrix_cols);
  return cudaGetLastError();
}
