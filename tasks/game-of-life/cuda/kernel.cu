// Conway's Game of Life on a y_dim x x_dim board with dead cells around it. states[y][x][g] is the cell at (x, y) in
// generation g; from generation `generations` on it is zero.

#include <cuda_runtime.h>

namespace {

constexpr int kSide = 16;  // rows and columns of a block's part of the board

// Make generation g of generation g - 1: stage a block's cells and a ring around them in shared memory, then count.
__global__ void generation_kernel(unsigned int* states, int x_dim, int y_dim, int iters, int g) {
  __shared__ unsigned int cells[kSide + 2][kSide + 2];
  const int first_x = blockIdx.x * kSide - 1;
  const int first_y = blockIdx.y * kSide - 1;
  for (int k = threadIdx.y * kSide + threadIdx.x; k < (kSide + 2) * (kSide + 2); k += kSide * kSide) {
    const int x = first_x + k % (kSide + 2);
    const int y = first_y + k / (kSide + 2);
    const bool inside = x >= 0 && x < x_dim && y >= 0 && y < y_dim;
    cells[k / (kSide + 2)][k % (kSide + 2)] = inside ? states[(static_cast<size_t>(y) * x_dim + x) * iters + g - 1] : 0u;
  }
  __syncthreads();

  const int x = blockIdx.x * kSide + threadIdx.x;
  const int y = blockIdx.y * kSide + threadIdx.y;
  if (x >= x_dim || y >= y_dim) {
    return;
  }
  unsigned int neighbours = 0;
  for (int dy = 0; dy < 3; ++dy) {
    for (int dx = 0; dx < 3; ++dx) {
      if (dx != 1 || dy != 1) {
        neighbours += cells[threadIdx.y + dy][threadIdx.x + dx];
      }
    }
  }
  const bool lives = cells[threadIdx.y + 1][threadIdx.x + 1] != 0;
  states[(static_cast<size_t>(y) * x_dim + x) * iters + g] = neighbours == 3 || (lives && neighbours == 2) ? 1u : 0u;
}

// Generation 0 is the initial board, later ones are cleared.
__global__ void start_kernel(const unsigned int* __restrict__ initial, unsigned int* __restrict__ states, int cells,
                             int iters) {
  const int k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k < cells * iters) {
    states[k] = k % iters == 0 ? initial[k / iters] : 0u;
  }
}

}  // namespace

// initial: device pointer to y_dim * x_dim words, 0 or 1; states: device pointer to y_dim * x_dim * iters words.
// 1 <= generations <= iters.
extern "C" cudaError_t game_of_life(const unsigned int* initial, unsigned int* states, int x_dim, int y_dim, int iters,
                                    unsigned short generations) {
  constexpr int kThreads = 256;
  const int cells = x_dim * y_dim;
  start_kernel<<<(cells * iters + kThreads - 1) / kThreads, kThreads>>>(initial, states, cells, iters);
  const dim3 blocks((x_dim + kSide - 1) / kSide, (y_dim + kSide - 1) / kSide);
  for (int g = 1; g < generations; ++g) {
    generation_kernel<<<blocks, dim3(kSide, kSide)>>>(states, x_dim, y_dim, iters, g);
  }
  return cudaGetLastError();
}
