// One thread per row.
__global__ void matvec(const float* A, const float* x, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float sum = 0.0f;
    for (int c = 0; c < cols; ++c) {
      sum += A[r * cols + c] * x[c];
    }
    y[r] = sum;
  }
}
extern "C" void matvec_row_thread(const float* A, const float* x, float* y, int rows, int cols) {
  matvec<<<(rows + 31) / 32, 32>>>(A, x, y, rows, cols);
}
