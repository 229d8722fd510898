// Repeated matrix-vector product with one square tile: y = A x, applied `iters` times. Every cell of a width x height
// grid does the same work on its own copy of the vector; cells don't communicate.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

__device__ float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, offset);
  }
  return value;
}

// One block per cell, one warp per row of A at a time. The current and the next vector live in shared memory.
__global__ void tile_matvec_kernel(const float* __restrict__ A, const float* __restrict__ x, float* __restrict__ y,
                                   int n, int iters) {
  extern __shared__ float vectors[];
  float* current = vectors;
  float* next = vectors + n;
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int warps = blockDim.x / kWarp;

  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    current[i] = x[i];
  }
  __syncthreads();
  for (int iter = 0; iter < iters; ++iter) {
    for (int row = warp; row < n; row += warps) {
      float sum = 0.0f;
      for (int col = lane; col < n; col += kWarp) {
        sum += A[row * n + col] * current[col];
      }
      sum = warp_sum(sum);
      if (lane == 0) {
        next[row] = sum;
      }
    }
    __syncthreads();
    float* swap = current;
    current = next;
    next = swap;
  }
  const int cell = blockIdx.y * gridDim.x + blockIdx.x;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    y[cell * n + i] = current[i];
  }
}

}  // namespace

// A: tile_size x tile_size floats, row-major; x: tile_size floats; y: height x width x tile_size floats; all on the device.
extern "C" cudaError_t tile_matvec(const float* A, const float* x, float* y, int tile_size, int width, int height,
                                   unsigned short iters) {
  const dim3 cells(width, height);
  const size_t shared_bytes = 2 * static_cast<size_t>(tile_size) * sizeof(float);
  tile_matvec_kernel<<<cells, kThreads, shared_bytes>>>(A, x, y, tile_size, iters);
  return cudaGetLastError();
}
