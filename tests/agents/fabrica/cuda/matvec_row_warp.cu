// One warp per row, two-dimensional block.
__global__ void matvec(const float* A, const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  float sum = 0.f;
  for (int c = threadIdx.x; c < cols; c += 32) sum += A[row * cols + c] * x[c];
  for (int m = 16; m > 0; m >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, m);
  if (threadIdx.x == 0) y[row] = sum;
}
extern "C" void matvec_row_warp(const float* A, const float* x, float* y, int rows, int cols) {
  dim3 block(32, 4);
  matvec<<<(rows + 3) / 4, block>>>(A, x, y, rows, cols);
}
