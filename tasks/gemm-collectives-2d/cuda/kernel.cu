// C = A B with tiles in shared memory: a block computes a square of C; its threads load a square of A and of B together,
// multiply, and go on to the next squares.

#include <cuda_runtime.h>

namespace {

constexpr int kTile = 16;

__global__ void gemm_tiled_kernel(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                                  int rows, int inner, int cols) {
  __shared__ float tile_A[kTile][kTile];
  __shared__ float tile_B[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int col = blockIdx.x * kTile + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < inner; start += kTile) {
    const int k_A = start + threadIdx.x;
    const int k_B = start + threadIdx.y;
    tile_A[threadIdx.y][threadIdx.x] = row < rows && k_A < inner ? A[row * inner + k_A] : 0.0f;
    tile_B[threadIdx.y][threadIdx.x] = k_B < inner && col < cols ? B[k_B * cols + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; ++k) {
      sum = fmaf(tile_A[threadIdx.y][k], tile_B[k][threadIdx.x], sum);
    }
    __syncthreads();
  }
  if (row < rows && col < cols) {
    C[row * cols + col] = sum;
  }
}

}  // namespace

// A: P Mt x P Kt, B: P Kt x P Nt, C: P Mt x P Nt floats, row-major, on the device.
extern "C" cudaError_t gemm_tiled(const float* A, const float* B, float* C, int P, int Mt, int Kt, int Nt) {
  const int rows = P * Mt;
  const int inner = P * Kt;
  const int cols = P * Nt;
  const dim3 threads(kTile, kTile);
  const dim3 blocks((cols + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
  gemm_tiled_kernel<<<blocks, threads>>>(A, B, C, rows, inner, cols);
  return cudaGetLastError();
}
