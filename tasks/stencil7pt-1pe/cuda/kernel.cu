// Seven-point stencil: y = 6 x - the six face neighbours of x, with zeros outside of the grid.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 8;

__global__ void stencil7_kernel(const float* __restrict__ x, float* __restrict__ y, int Nx, int Ny, int Nz) {
  const int ix = blockIdx.x * blockDim.x + threadIdx.x;
  const int iy = blockIdx.y * blockDim.y + threadIdx.y;
  const int iz = blockIdx.z * blockDim.z + threadIdx.z;
  if (ix >= Nx || iy >= Ny || iz >= Nz) {
    return;
  }
  const int plane = Nx * Ny;
  const int center = iz * plane + iy * Nx + ix;
  float value = 6.0f * x[center];
  if (ix > 0) {
    value -= x[center - 1];
  }
  if (ix + 1 < Nx) {
    value -= x[center + 1];
  }
  if (iy > 0) {
    value -= x[center - Nx];
  }
  if (iy + 1 < Ny) {
    value -= x[center + Nx];
  }
  if (iz > 0) {
    value -= x[center - plane];
  }
  if (iz + 1 < Nz) {
    value -= x[center + plane];
  }
  y[center] = value;
}

}  // namespace

// x and y: device pointers to Nz * Ny * Nx floats.
extern "C" cudaError_t stencil7(const float* x, float* y, int Nx, int Ny, int Nz) {
  const dim3 threads(kThreads, kThreads, kThreads);
  const dim3 blocks((Nx + kThreads - 1) / kThreads, (Ny + kThreads - 1) / kThreads, (Nz + kThreads - 1) / kThreads);
  stencil7_kernel<<<blocks, threads>>>(x, y, Nx, Ny, Nz);
  return cudaGetLastError();
}
