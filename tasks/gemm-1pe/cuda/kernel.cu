// C = A B with row-major matrices, by tiles in shared memory.

#include <cuda_runtime.h>

namespace {

constexpr int kTile = 16;

__global__ void gemm_kernel(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int K,
                            int N) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int col = blockIdx.x * kTile + threadIdx.x;
  float sum = 0.0f;
  for (int first = 0; first < K; first += kTile) {
    const int a_col = first + threadIdx.x;
    const int b_row = first + threadIdx.y;
    a_tile[threadIdx.y][threadIdx.x] = row < M && a_col < K ? A[row * K + a_col] : 0.0f;
    b_tile[threadIdx.y][threadIdx.x] = b_row < K && col < N ? B[b_row * N + col] : 0.0f;
    __syncthreads();
    for (int k = 0; k < kTile; ++k) {
      sum += a_tile[threadIdx.y][k] * b_tile[k][threadIdx.x];
    }
    __syncthreads();
  }
  if (row < M && col < N) {
    C[row * N + col] = sum;
  }
}

}  // namespace

// A: M x K, B: K x N, C: M x N floats, row-major, all on the device.
extern "C" cudaError_t gemm(const float* A, const float* B, float* C, int M, int K, int N) {
  const dim3 threads(kTile, kTile);
  const dim3 blocks((N + kTile - 1) / kTile, (M + kTile - 1) / kTile);
  gemm_kernel<<<blocks, threads>>>(A, B, C, M, K, N);
  return cudaGetLastError();
}
