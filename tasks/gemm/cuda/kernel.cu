// C = A B, register-blocked: a block of threads computes 32 x 32 elements of C from strips in shared memory, each thread a
// column of four.

#include <cuda_runtime.h>

namespace {

constexpr int kBlock = 32;
constexpr int kDepth = 8;
constexpr int kPerThread = 4;
constexpr int kThreadRows = kBlock / kPerThread;

__global__ void gemm_blocked_kernel(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                                    int M, int K, int N) {
  __shared__ float strip_A[kDepth][kBlock];
  __shared__ float strip_B[kDepth][kBlock];
  const int first_row = blockIdx.y * kBlock;
  const int first_col = blockIdx.x * kBlock;
  const int thread = threadIdx.y * kBlock + threadIdx.x;
  float sums[kPerThread] = {};

  for (int k0 = 0; k0 < K; k0 += kDepth) {
    // 256 threads load 32 x 8 elements of A and 8 x 32 of B, one of each.
    const int a_row = first_row + thread / kDepth;
    const int a_k = k0 + thread % kDepth;
    strip_A[thread % kDepth][thread / kDepth] = a_row < M && a_k < K ? A[a_row * K + a_k] : 0.0f;
    const int b_k = k0 + threadIdx.y;
    const int b_col = first_col + threadIdx.x;
    strip_B[threadIdx.y][threadIdx.x] = b_k < K && b_col < N ? B[b_k * N + b_col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      const float b = strip_B[k][threadIdx.x];
#pragma unroll
      for (int r = 0; r < kPerThread; ++r) {
        sums[r] += strip_A[k][threadIdx.y * kPerThread + r] * b;
      }
    }
    __syncthreads();
  }

  const int col = first_col + threadIdx.x;
  for (int r = 0; r < kPerThread; ++r) {
    const int row = first_row + threadIdx.y * kPerThread + r;
    if (row < M && col < N) {
      C[row * N + col] = sums[r];
    }
  }
}

}  // namespace

// A: P Mt x P Kt, B: P Kt x P Nt, C: P Mt x P Nt floats, row-major, on the device.
extern "C" cudaError_t gemm_blocked(const float* A, const float* B, float* C, int P, int Mt, int Kt, int Nt) {
  static_assert(kThreadRows == kDepth, "each thread loads one element of both strips");
  const int M = P * Mt;
  const int K = P * Kt;
  const int N = P * Nt;
  const dim3 threads(kBlock, kThreadRows);
  const dim3 blocks((N + kBlock - 1) / kBlock, (M + kBlock - 1) / kBlock);
  gemm_blocked_kernel<<<blocks, threads>>>(A, B, C, M, K, N);
  return cudaGetLastError();
}
