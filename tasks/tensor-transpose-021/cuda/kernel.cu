// B[i, k, j] = A[i, j, k], written once for every cell of a width x height rectangle, by tiles in shared memory.

#include <cuda_runtime.h>

namespace {

constexpr int kTile = 16;

__global__ void transpose021_kernel(const float* __restrict__ A, float* __restrict__ B, int ax1, int ax2, int ax3) {
  __shared__ float tile[kTile][kTile + 1];  // one column more: columns are read without bank conflicts
  const int i = blockIdx.z % ax1;
  const float* source = A + static_cast<size_t>(i) * ax2 * ax3;
  float* target = B + static_cast<size_t>(blockIdx.z) * ax2 * ax3;

  const int k = blockIdx.x * kTile + threadIdx.x;
  const int j = blockIdx.y * kTile + threadIdx.y;
  if (j < ax2 && k < ax3) {
    tile[threadIdx.y][threadIdx.x] = source[j * ax3 + k];
  }
  __syncthreads();
  const int out_j = blockIdx.y * kTile + threadIdx.x;
  const int out_k = blockIdx.x * kTile + threadIdx.y;
  if (out_j < ax2 && out_k < ax3) {
    target[out_k * ax2 + out_j] = tile[threadIdx.x][threadIdx.y];
  }
}

}  // namespace

// A: ax1 x ax2 x ax3 floats; B: height x width x ax1 x ax3 x ax2 floats; both on the device.
extern "C" cudaError_t transpose021(const float* A, float* B, int width, int height, int ax1, int ax2, int ax3) {
  const dim3 threads(kTile, kTile);
  const dim3 blocks((ax3 + kTile - 1) / kTile, (ax2 + kTile - 1) / kTile, width * height * ax1);
  transpose021_kernel<<<blocks, threads>>>(A, B, ax1, ax2, ax3);
  return cudaGetLastError();
}
