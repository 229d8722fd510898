// Residual of the two-dimensional Lorenzo predictor, with zeros outside of the grid:
// r[i][j] = a[i][j] - (a[i-1][j] + a[i][j-1] - a[i-1][j-1]).
//
// The grid is stored tile by tile: tile (ty, tx) holds Mt x Nt cells, row-major, at (ty * width + tx) * Mt * Nt.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;

// One block per tile: stage the tile, with a row above and a column to the left, in shared memory.
__global__ void lorenzo_kernel(const float* __restrict__ grid, float* __restrict__ residual, int width, int Mt, int Nt) {
  extern __shared__ float staged[];
  const int pitch = Nt + 1;
  const int area = Mt * Nt;

  for (int k = threadIdx.x; k < (Mt + 1) * pitch; k += blockDim.x) {
    const int row = static_cast<int>(blockIdx.y) * Mt + k / pitch - 1;
    const int col = static_cast<int>(blockIdx.x) * Nt + k % pitch - 1;
    float value = 0.0f;
    if (row >= 0 && col >= 0) {
      const size_t tile = static_cast<size_t>(row / Mt) * width + col / Nt;
      value = grid[tile * area + (row % Mt) * Nt + col % Nt];
    }
    staged[k] = value;
  }
  __syncthreads();

  float* out = residual + (static_cast<size_t>(blockIdx.y) * width + blockIdx.x) * area;
  for (int k = threadIdx.x; k < area; k += blockDim.x) {
    const int here = (k / Nt + 1) * pitch + k % Nt + 1;
    const float predicted = staged[here - pitch] + staged[here - 1] - staged[here - pitch - 1];
    out[k] = staged[here] - predicted;
  }
}

}  // namespace

// tile and residual: device pointers to height * width * Mt * Nt floats.
extern "C" cudaError_t lorenzo_residual(const float* tile, float* residual, int height, int width, int Mt, int Nt) {
  const size_t shared_bytes = static_cast<size_t>(Mt + 1) * (Nt + 1) * sizeof(float);
  lorenzo_kernel<<<dim3(width, height), kThreads, shared_bytes>>>(tile, residual, width, Mt, Nt);
  return cudaGetLastError();
}
