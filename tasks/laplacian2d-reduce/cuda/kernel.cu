// iters steps of new = (up + down + left + right) / 4 on a grid with zeros outside, then the largest |new - old| of the
// last step in every column of tiles.
//
// The grid is stored tile by tile: tile (ty, tx) holds Mt x Nt cells, row-major, at (ty * width + tx) * Mt * Nt.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;

// Value of global cell (row, col), zero outside of the grid.
__device__ float cell_or_zero(const float* grid, int row, int col, int height, int width, int Mt, int Nt) {
  if (row < 0 || row >= height * Mt || col < 0 || col >= width * Nt) {
    return 0.0f;
  }
  const size_t tile = static_cast<size_t>(row / Mt) * width + col / Nt;
  return grid[tile * Mt * Nt + (row % Mt) * Nt + col % Nt];
}

// One block per tile. change[tile]: the largest |new - old| in the tile.
__global__ void step_kernel(const float* __restrict__ old_grid, float* __restrict__ new_grid, float* __restrict__ change,
                            int height, int width, int Mt, int Nt) {
  __shared__ float largest[kThreads];
  const size_t tile = static_cast<size_t>(blockIdx.y) * width + blockIdx.x;
  float local = 0.0f;
  for (int k = threadIdx.x; k < Mt * Nt; k += kThreads) {
    const int row = blockIdx.y * Mt + k / Nt;
    const int col = blockIdx.x * Nt + k % Nt;
    const float up = cell_or_zero(old_grid, row - 1, col, height, width, Mt, Nt);
    const float down = cell_or_zero(old_grid, row + 1, col, height, width, Mt, Nt);
    const float left = cell_or_zero(old_grid, row, col - 1, height, width, Mt, Nt);
    const float right = cell_or_zero(old_grid, row, col + 1, height, width, Mt, Nt);
    const float value = 0.25f * (up + down + left + right);
    new_grid[tile * Mt * Nt + k] = value;
    local = fmaxf(local, fabsf(value - old_grid[tile * Mt * Nt + k]));
  }

  largest[threadIdx.x] = local;
  __syncthreads();
  for (unsigned int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      largest[threadIdx.x] = fmaxf(largest[threadIdx.x], largest[threadIdx.x + half]);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    change[tile] = largest[0];
  }
}

// One thread per column of tiles.
__global__ void column_kernel(const float* __restrict__ change, float* __restrict__ nrm, int height, int width) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column < width) {
    float local = change[column];
    for (int row = 1; row < height; ++row) {
      local = fmaxf(local, change[static_cast<size_t>(row) * width + column]);
    }
    nrm[column] = local;
  }
}

}  // namespace

// tile: device pointer to height * width * Mt * Nt floats, not changed; nrm: device pointer to width floats. iters >= 1.
extern "C" cudaError_t laplacian2d_change(const float* tile, float* nrm, int height, int width, int Mt, int Nt,
                                          unsigned short iters) {
  const size_t tiles = static_cast<size_t>(height) * width;
  const size_t cells = tiles * Mt * Nt;
  float* scratch = nullptr;  // two grids, and the largest change of every tile
  cudaError_t status = cudaMalloc(&scratch, (2 * cells + tiles) * sizeof(float));
  if (status != cudaSuccess) {
    return status;
  }
  float* const grids[2] = {scratch, scratch + cells};
  float* const change = scratch + 2 * cells;

  const float* source = tile;
  for (int step = 0; step < iters; ++step) {
    float* target = grids[step % 2];
    step_kernel<<<dim3(width, height), kThreads>>>(source, target, change, height, width, Mt, Nt);
    source = target;
  }
  column_kernel<<<(width + kThreads - 1) / kThreads, kThreads>>>(change, nrm, height, width);
  status = cudaGetLastError();
  cudaFree(scratch);  // waits for the kernels
  return status;
}
