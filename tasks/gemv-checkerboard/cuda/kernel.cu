// y = A x + b in half precision: a block for each row, whose threads take two columns at a time where they can; products and
// sums in float.

#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;

__device__ float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, offset);
  }
  return value;
}

__global__ void gemv_half_kernel(const __half* __restrict__ A, const __half* __restrict__ x,
                                 const __half* __restrict__ b, __half* __restrict__ y, int cols) {
  __shared__ float warp_sums[kWarps];
  const int row = blockIdx.x;
  const __half* own = A + static_cast<size_t>(row) * cols;
  float sum = 0.0f;
  if (cols % 2 == 0) {  // then every row starts at an even element
    const __half2* own_pairs = reinterpret_cast<const __half2*>(own);
    const __half2* x_pairs = reinterpret_cast<const __half2*>(x);
    for (int pair = threadIdx.x; pair < cols / 2; pair += kThreads) {
      const float2 a = __half22float2(own_pairs[pair]);
      const float2 v = __half22float2(x_pairs[pair]);
      sum = fmaf(a.x, v.x, sum);
      sum = fmaf(a.y, v.y, sum);
    }
  } else {
    for (int col = threadIdx.x; col < cols; col += kThreads) {
      sum = fmaf(__half2float(own[col]), __half2float(x[col]), sum);
    }
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) {
    warp_sums[threadIdx.x / kWarp] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = __half2float(b[row]);
    for (int warp = 0; warp < kWarps; ++warp) {
      total += warp_sums[warp];
    }
    y[row] = __float2half(total);
  }
}

}  // namespace

// A: matrix_rows x matrix_cols halves, row-major; x: matrix_cols, b and y: matrix_rows halves; all on the device.
extern "C" cudaError_t gemv_half(const __half* A, const __half* x, const __half* b, __half* y, int matrix_rows,
                                 int matrix_cols) {
  gemv_half_kernel<<<matrix_rows, kThreads>>>(A, x, b, y, matrix_cols);
  return cudaGetLastError();
}
