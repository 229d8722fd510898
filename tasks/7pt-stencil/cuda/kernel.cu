// Seven-point product on a grid of width x height columns of k cells; cell z of column (column, row) is element
// (row * width + column) * k + z. Every column has its own coefficients.

#include <cuda_runtime.h>

namespace {

// shared: product kernel
constexpr int kThreads = 128;
constexpr int kCoefficients = 7;  // center, west, east, south, north, bottom, top

// One block per column and kThreads cells of it: y = A x, with zeros outside of the grid.
__global__ void product_kernel(const float* __restrict__ stencil_coeff, const float* __restrict__ x, float* __restrict__ y,
                               int width, int height, int k) {
  __shared__ float coefficient[kCoefficients];
  const int column = blockIdx.x;
  const int row = blockIdx.y;
  const int pe = row * width + column;
  if (threadIdx.x < kCoefficients) {
    coefficient[threadIdx.x] = stencil_coeff[pe * kCoefficients + threadIdx.x];
  }
  __syncthreads();
  const int z = blockIdx.z * blockDim.x + threadIdx.x;
  if (z >= k) {
    return;
  }
  const int cell = pe * k + z;
  float sum = coefficient[0] * x[cell];
  if (column > 0) {
    sum += coefficient[1] * x[cell - k];
  }
  if (column + 1 < width) {
    sum += coefficient[2] * x[cell + k];
  }
  if (row + 1 < height) {
    sum += coefficient[3] * x[cell + width * k];
  }
  if (row > 0) {
    sum += coefficient[4] * x[cell - width * k];
  }
  if (z > 0) {
    sum += coefficient[5] * x[cell - 1];
  }
  if (z + 1 < k) {
    sum += coefficient[6] * x[cell + 1];
  }
  y[cell] = sum;
}
// end of shared: product kernel

}  // namespace

// stencil_coeff: device pointer to height * width * 7 floats; x and y: to height * width * k floats.
extern "C" cudaError_t seven_point(const float* stencil_coeff, const float* x, float* y, int width, int height, int k) {
  const dim3 blocks(width, height, (k + kThreads - 1) / kThreads);
  product_kernel<<<blocks, kThreads>>>(stencil_coeff, x, y, width, height, k);
  return cudaGetLastError();
}
