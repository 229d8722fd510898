// y = A x with A in compressed rows: one warp per row.

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

__global__ void spmv_csr_kernel(const unsigned int* __restrict__ row_ptr, const unsigned int* __restrict__ col_idx,
                                const float* __restrict__ val, const float* __restrict__ x, float* __restrict__ y,
                                int nrows) {
  const int lane = threadIdx.x % kWarp;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp;
  if (row >= nrows) {
    return;
  }
  float sum = 0.0f;
  for (unsigned int k = row_ptr[row] + lane; k < row_ptr[row + 1]; k += kWarp) {
    sum += val[k] * x[col_idx[k]];
  }
  sum = warp_sum(sum);
  if (lane == 0) {
    y[row] = sum;
  }
}

}  // namespace

// row_ptr: nrows + 1 words; col_idx and val: as many elements as row_ptr[nrows] says; y: nrows floats; on the device.
extern "C" cudaError_t spmv_csr(const unsigned int* row_ptr, const unsigned int* col_idx, const float* val, const float* x,
                                float* y, int nrows) {
  const int warps_per_block = kThreads / kWarp;
  spmv_csr_kernel<<<(nrows + warps_per_block - 1) / warps_per_block, kThreads>>>(row_ptr, col_idx, val, x, y, nrows);
  return cudaGetLastError();
}
