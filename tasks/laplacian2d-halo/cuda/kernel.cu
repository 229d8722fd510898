// iters steps of new = (up + down + left + right) / 4 on a grid with zeros outside.
//
// The grid is stored tile by tile: tile (ty, tx) holds Mt x Nt cells, row-major, at (ty * width + tx) * Mt * Nt.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;

// Value of global cell (row, col), zero outside of the grid.
__device__ float cell(const float* grid, int row, int col, int height, int width, int Mt, int Nt) {
  if (row < 0 || row >= height * Mt || col < 0 || col >= width * Nt) {
    return 0.0f;
  }
  const int tile = (row / Mt) * width + col / Nt;
  return grid[tile * Mt * Nt + (row % Mt) * Nt + col % Nt];
}

// One block per tile: stage the tile and its one-cell halo in shared memory, then average.
__global__ void laplacian2d_kernel(const float* __restrict__ grid, float* __restrict__ out, int height, int width, int Mt,
                                   int Nt) {
  extern __shared__ float staged[];
  const int pitch = Nt + 2;
  const int first_row = blockIdx.y * Mt;
  const int first_col = blockIdx.x * Nt;

  for (int k = threadIdx.x; k < (Mt + 2) * pitch; k += blockDim.x) {
    const int row = first_row + k / pitch - 1;
    const int col = first_col + k % pitch - 1;
    staged[k] = cell(grid, row, col, height, width, Mt, Nt);
  }
  __syncthreads();

  float* tile = out + (blockIdx.y * width + blockIdx.x) * Mt * Nt;
  for (int k = threadIdx.x; k < Mt * Nt; k += blockDim.x) {
    const int center = (k / Nt + 1) * pitch + k % Nt + 1;
    tile[k] = 0.25f * (staged[center - pitch] + staged[center + pitch] + staged[center - 1] + staged[center + 1]);
  }
}

}  // namespace

// tile and new_tile are device pointers to height * width * Mt * Nt floats; tile is not changed. iters >= 1.
extern "C" cudaError_t laplacian2d(const float* tile, float* new_tile, int height, int width, int Mt, int Nt,
                                   unsigned short iters) {
  const size_t bytes = static_cast<size_t>(height) * width * Mt * Nt * sizeof(float);
  const size_t shared_bytes = static_cast<size_t>(Mt + 2) * (Nt + 2) * sizeof(float);
  const dim3 tiles(width, height);

  float* scratch = nullptr;
  if (iters > 1) {
    const cudaError_t status = cudaMalloc(&scratch, bytes);
    if (status != cudaSuccess) {
      return status;
    }
  }
  // The steps alternate between the two buffers so that the last one writes new_tile.
  const float* source = tile;
  for (int step = 1; step <= iters; ++step) {
    float* target = (iters - step) % 2 == 0 ? new_tile : scratch;
    laplacian2d_kernel<<<tiles, kThreads, shared_bytes>>>(source, target, height, width, Mt, Nt);
    source = target;
  }
  const cudaError_t status = cudaGetLastError();
  cudaFree(scratch);  // waits for the kernels
  return status;
}
