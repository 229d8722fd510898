// out = alpha * x: one block per chunk; alpha lies in global memory, and each block fetches it once.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 128;

__global__ void scale_kernel(const float* __restrict__ x, const float* __restrict__ alpha, float* __restrict__ out,
                             int n_per_pe) {
  __shared__ float factor;
  if (threadIdx.x == 0) {
    factor = *alpha;
  }
  __syncthreads();
  const int first = blockIdx.x * n_per_pe;
  for (int i = threadIdx.x; i < n_per_pe; i += blockDim.x) {
    out[first + i] = factor * x[first + i];
  }
}

__global__ void set_kernel(float* alpha, float value) {
  *alpha = value;
}

}  // namespace

// x and out: device pointers to width * n_per_pe floats.
extern "C" cudaError_t broadcast_scale(const float* x, float alpha, float* out, int width, int n_per_pe) {
  float* shared_alpha = nullptr;
  cudaError_t status = cudaMalloc(&shared_alpha, sizeof(float));
  if (status != cudaSuccess) {
    return status;
  }
  set_kernel<<<1, 1>>>(shared_alpha, alpha);
  scale_kernel<<<width, kThreads>>>(x, shared_alpha, out, n_per_pe);
  status = cudaGetLastError();
  cudaFree(shared_alpha);  // waits for the kernels
  return status;
}
