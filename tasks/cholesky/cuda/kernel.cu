// Cholesky factor in place, panel by panel of Nt columns: one block factors the diagonal tile, one thread per row solves for
// the rows below it, then the rest of the lower triangle is updated in parallel.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 128;
constexpr int kSquare = 16;

// Factor the tile that begins at (start, start). One block.
__global__ void factor_kernel(float* a, int n, int start, int width) {
  for (int k = 0; k < width; ++k) {
    const int column = start + k;
    const float pivot = sqrtf(a[column * n + column]);
    __syncthreads();  // all have read the pivot
    for (int i = k + threadIdx.x; i < width; i += blockDim.x) {
      float* element = a + (start + i) * n + column;
      *element = i == k ? pivot : *element / pivot;
    }
    __syncthreads();
    const int rest = width - k - 1;
    for (int item = threadIdx.x; item < rest * rest; item += blockDim.x) {
      const int i = start + k + 1 + item / rest;
      const int j = start + k + 1 + item % rest;
      if (j <= i) {
        a[i * n + j] -= a[i * n + column] * a[j * n + column];
      }
    }
    __syncthreads();
  }
}

// Rows below the tile: forward substitution, one thread per row.
__global__ void solve_kernel(float* a, int n, int start, int width) {
  const int row = start + width + blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) {
    return;
  }
  float* own = a + row * n + start;
  for (int k = 0; k < width; ++k) {
    const float* factor = a + (start + k) * n + start;
    float rest = own[k];
    for (int j = 0; j < k; ++j) {
      rest -= own[j] * factor[j];
    }
    own[k] = rest / factor[k];
  }
}

// Lower triangle to the right of the panel: subtract the products of its rows.
__global__ void update_kernel(float* a, int n, int start, int width) {
  const int first = start + width;
  const int i = first + blockIdx.y * kSquare + threadIdx.y;
  const int j = first + blockIdx.x * kSquare + threadIdx.x;
  if (i >= n || j > i) {
    return;
  }
  float sum = 0.0f;
  for (int k = start; k < first; ++k) {
    sum = fmaf(a[i * n + k], a[j * n + k], sum);
  }
  a[i * n + j] -= sum;
}

__global__ void clear_upper_kernel(float* a, int n) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y;
  if (j < n && j > i) {
    a[i * n + j] = 0.0f;
  }
}

int blocks_for(int count, int threads) { return (count + threads - 1) / threads; }

}  // namespace

// tile: the symmetric matrix of P Nt rows, row-major, on the device; replaced by its lower triangular factor.
extern "C" cudaError_t cholesky(float* tile, int P, int Nt) {
  const int n = P * Nt;
  for (int step = 0; step < P; ++step) {
    const int start = step * Nt;
    const int below = n - start - Nt;
    factor_kernel<<<1, kThreads>>>(tile, n, start, Nt);
    if (below > 0) {
      solve_kernel<<<blocks_for(below, kThreads), kThreads>>>(tile, n, start, Nt);
      const dim3 squares(blocks_for(below, kSquare), blocks_for(below, kSquare));
      update_kernel<<<squares, dim3(kSquare, kSquare)>>>(tile, n, start, Nt);
    }
  }
  clear_upper_kernel<<<dim3(blocks_for(n, kThreads), n), kThreads>>>(tile, n);
  return cudaGetLastError();
}
