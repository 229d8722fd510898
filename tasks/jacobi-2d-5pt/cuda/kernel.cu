// iters Jacobi steps of the five-point operator; cells on the edge of the grid keep their values.
//
// The grid is stored tile by tile: tile (ty, tx) holds Mt x Nt cells, row-major, at (ty * width + tx) * Mt * Nt.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 128;

struct Grid {
  int height;  // tile rows
  int width;   // tile columns
  int Mt;      // cell rows of a tile
  int Nt;      // cell columns of a tile

  __host__ __device__ int rows() const { return height * Mt; }
  __host__ __device__ int cols() const { return width * Nt; }

  // Where the cell of a global row and column is stored.
  __device__ size_t at(int row, int col) const {
    const size_t tile = static_cast<size_t>(row / Mt) * width + col / Nt;
    return (tile * Mt + row % Mt) * Nt + col % Nt;
  }
};

// One thread per cell, one block row per grid row.
__global__ void jacobi2d_kernel(const float* __restrict__ old_cells, float* __restrict__ new_cells, Grid grid) {
  const int row = blockIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= grid.cols()) {
    return;
  }
  const size_t center = grid.at(row, col);
  const bool on_edge = row == 0 || col == 0 || row == grid.rows() - 1 || col == grid.cols() - 1;
  if (on_edge) {
    new_cells[center] = old_cells[center];
    return;
  }
  const float vertical = old_cells[grid.at(row - 1, col)] + old_cells[grid.at(row + 1, col)];
  const float horizontal = old_cells[grid.at(row, col - 1)] + old_cells[grid.at(row, col + 1)];
  new_cells[center] = 0.25f * (vertical + horizontal);
}

}  // namespace

// tile and new_tile are device pointers to height * width * Mt * Nt floats; tile is not changed. iters >= 1.
extern "C" cudaError_t jacobi2d(const float* tile, float* new_tile, int height, int width, int Mt, int Nt,
                                unsigned short iters) {
  const Grid grid{height, width, Mt, Nt};
  const dim3 blocks((grid.cols() + kThreads - 1) / kThreads, grid.rows());
  const size_t bytes = static_cast<size_t>(grid.rows()) * grid.cols() * sizeof(float);

  float* scratch = nullptr;
  if (iters > 1) {
    const cudaError_t status = cudaMalloc(&scratch, bytes);
    if (status != cudaSuccess) {
      return status;
    }
  }
  // The steps alternate between the two buffers so that the last one writes new_tile.
  const float* source = tile;
  for (int left = iters; left > 0; --left) {
    float* target = left % 2 == 1 ? new_tile : scratch;
    jacobi2d_kernel<<<blocks, kThreads>>>(source, target, grid);
    source = target;
  }
  const cudaError_t status = cudaGetLastError();
  cudaFree(scratch);  // waits for the kernels
  return status;
}
