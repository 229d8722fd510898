// Escape counts of an image of rows x cols points: the steps z <- z^2 + c, from z = c on, before |z| >= 2.

#include <cuda_runtime.h>

namespace {

constexpr int kTile = 16;

// One thread per pixel. region: real and imaginary part of the first pixel, distances of columns and rows.
__global__ void mandelbrot_kernel(const float* __restrict__ region, float* __restrict__ iters, int max_iters, int rows,
                                  int cols) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) {
    return;
  }
  const float c_real = region[0] + region[2] * static_cast<float>(col);
  const float c_imag = region[1] + region[3] * static_cast<float>(row);
  float real = c_real;
  float imag = c_imag;
  int steps = 0;
  while (steps < max_iters && real * real + imag * imag < 4.0f) {
    const float next_real = real * real - imag * imag + c_real;
    imag = 2.0f * real * imag + c_imag;
    real = next_real;
    ++steps;
  }
  iters[row * cols + col] = static_cast<float>(steps);
}

}  // namespace

// region: device pointer to 4 floats; iters: to rows * cols floats.
extern "C" cudaError_t mandelbrot(const float* region, float* iters, unsigned short max_iters, int rows, int cols) {
  const dim3 threads(kTile, kTile);
  const dim3 blocks((cols + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
  mandelbrot_kernel<<<blocks, threads>>>(region, iters, max_iters, rows, cols);
  return cudaGetLastError();
}
