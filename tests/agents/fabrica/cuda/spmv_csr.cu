// Sparse matrix times vector, one thread per row.
__global__ void spmv(int rows, const int* row_ptr, const int* col_idx, const float* values, const float* x, float* y) {
  int row = blockDim.x * blockIdx.x + threadIdx.x;
  if (row < rows) {
    float dot = 0.0f;
    int row_start = row_ptr[row];
    int row_end = row_ptr[row + 1];
    for (int jj = row_start; jj < row_end; jj++) dot += values[jj] * x[col_idx[jj]];
    y[row] = dot;
  }
}
extern "C" void spmv_csr(int rows, const int* row_ptr, const int* col_idx, const float* values, const float* x, float* y) {
  spmv<<<(rows + 15) / 16, 16>>>(rows, row_ptr, col_idx, values, x, y);
}
