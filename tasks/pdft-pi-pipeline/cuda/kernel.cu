// On-top pair density: for every grid point g, k = mo[g] x mo[g] (outer product, flattened), buf = k cascm2 and
// Pi[g] = k . buf. Three kernels, one per stage; the last one writes a copy of Pi for every PE of the other program.

#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 128;

// pairs[g][i * ncas + j] = mo_grid[g][i] * mo_grid[g][j]: a block per grid point.
__global__ void outer_kernel(const float* __restrict__ mo_grid, float* __restrict__ pairs, int ncas) {
  const float* mo = mo_grid + static_cast<size_t>(blockIdx.x) * ncas;
  const int n = ncas * ncas;
  for (int p = threadIdx.x; p < n; p += blockDim.x) {
    pairs[static_cast<size_t>(blockIdx.x) * n + p] = mo[p / ncas] * mo[p % ncas];
  }
}

// buf[g][q] = sum over p of pairs[g][p] * cascm2[p][q]: a block per grid point, a thread per column.
__global__ void contract_kernel(const float* __restrict__ pairs, const float* __restrict__ cascm2, float* __restrict__ buf,
                                int n) {
  extern __shared__ float k[];
  for (int p = threadIdx.x; p < n; p += blockDim.x) {
    k[p] = pairs[static_cast<size_t>(blockIdx.x) * n + p];
  }
  __syncthreads();
  for (int q = threadIdx.x; q < n; q += blockDim.x) {
    float sum = 0.0f;
    for (int p = 0; p < n; ++p) {
      sum += k[p] * cascm2[static_cast<size_t>(p) * n + q];
    }
    buf[static_cast<size_t>(blockIdx.x) * n + q] = sum;
  }
}

// Pi[copy][g] = sum over q of pairs[g][q] * buf[g][q]: a warp per grid point.
__global__ void dot_kernel(const float* __restrict__ pairs, const float* __restrict__ buf, float* __restrict__ Pi, int n,
                           int ngrid, int copies) {
  const size_t first = static_cast<size_t>(blockIdx.x) * n;
  float sum = 0.0f;
  for (int q = threadIdx.x; q < n; q += kWarp) {
    sum += pairs[first + q] * buf[first + q];
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  for (int copy = threadIdx.x; copy < copies; copy += kWarp) {
    Pi[static_cast<size_t>(copy) * ngrid + blockIdx.x] = sum;
  }
}

}  // namespace

// mo_grid: ngrid x ncas floats; cascm2: ncas^2 x ncas^2 floats; Pi: height * width copies of ngrid floats; all row-major
// and on the device.
extern "C" cudaError_t pair_density(const float* mo_grid, const float* cascm2, float* Pi, int width, int height, int ngrid,
                                    int ncas) {
  const int n = ncas * ncas;
  const size_t points = static_cast<size_t>(ngrid) * n;
  float* pairs = nullptr;
  cudaError_t status = cudaMalloc(&pairs, 2 * points * sizeof(float));
  if (status != cudaSuccess) {
    return status;
  }
  float* buf = pairs + points;
  outer_kernel<<<ngrid, kThreads>>>(mo_grid, pairs, ncas);
  contract_kernel<<<ngrid, kThreads, static_cast<size_t>(n) * sizeof(float)>>>(pairs, cascm2, buf, n);
  dot_kernel<<<ngrid, kWarp>>>(pairs, buf, Pi, n, ngrid, width * height);
  status = cudaGetLastError();
  cudaFree(pairs);  // waits for the kernels
  return status;
}
