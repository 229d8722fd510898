// y = A x + b: a block for each row; its threads walk along the row, then halve their sums in shared memory.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 128;

__global__ void gemv_kernel(const float* __restrict__ A, const float* __restrict__ x, const float* __restrict__ b,
                            float* __restrict__ y, int cols) {
  __shared__ float sums[kThreads];
  const int row = blockIdx.x;
  const float* own = A + static_cast<size_t>(row) * cols;
  float sum = 0.0f;
  for (int col = threadIdx.x; col < cols; col += kThreads) {
    sum += own[col] * x[col];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    y[row] = sums[0] + b[row];
  }
}

}  // namespace

// A: matrix_rows x matrix_cols floats, row-major; x: matrix_cols, b and y: matrix_rows floats; all on the device.
extern "C" cudaError_t gemv(const float* A, const float* x, const float* b, float* y, int matrix_rows,
                            int matrix_cols) {
  gemv_kernel<<<matrix_rows, kThreads>>>(A, x, b, y, matrix_cols);
  return cudaGetLastError();
}
