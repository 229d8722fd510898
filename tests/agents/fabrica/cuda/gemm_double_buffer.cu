// Results in registers across barriers; two halves of shared memory in turn.
template <int BM, int BN, int BK, int TM>
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[2][BM][BK];
  __shared__ float Bs[2][BK][BN];
  const int col = threadIdx.x % BN, rowg = threadIdx.x / BN;
  float acc[TM] = {0.0f};
  int buf = 0;
  for (int i = threadIdx.x; i < BM * BK; i += blockDim.x) As[0][i / BK][i % BK] = A[(blockIdx.y * BM + i / BK) * K + i % BK];
  for (int i = threadIdx.x; i < BK * BN; i += blockDim.x) Bs[0][i / BN][i % BN] = B[(i / BN) * N + blockIdx.x * BN + i % BN];
  __syncthreads();
  for (int k0 = 0; k0 < K; k0 += BK) {
    if (k0 + BK < K) {
      for (int i = threadIdx.x; i < BM * BK; i += blockDim.x) As[buf ^ 1][i / BK][i % BK] = A[(blockIdx.y * BM + i / BK) * K + k0 + BK + i % BK];
      for (int i = threadIdx.x; i < BK * BN; i += blockDim.x) Bs[buf ^ 1][i / BN][i % BN] = B[(k0 + BK + i / BN) * N + blockIdx.x * BN + i % BN];
    }
#pragma unroll
    for (int kk = 0; kk < BK; ++kk) {
      float b = Bs[buf][kk][col];
#pragma unroll
      for (int t = 0; t < TM; ++t) acc[t] += As[buf][rowg * TM + t][kk] * b;
    }
    __syncthreads();
    buf ^= 1;
  }
#pragma unroll
  for (int t = 0; t < TM; ++t) C[(blockIdx.y * BM + rowg * TM + t) * N + blockIdx.x * BN + col] = acc[t];
}
extern "C" void gemm_double_buffer(const float* A, const float* B, float* C, int m, int n, int k) {
  dim3 grid(n / 4, m / 4);
  mm<4, 4, 4, 2><<<grid, 8>>>(A, B, C, m, n, k);
}
