// Gaussian error linear unit, tanh form: out[i] = 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x^3))).

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 1024;

// Grid-stride loop: any grid covers any n.
__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ out, int n) {
  const int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float v = x[i];
    out[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
  }
}

}  // namespace

// x and out are device pointers to n > 0 floats.
extern "C" cudaError_t gelu(const float* x, float* out, int n) {
  int blocks = (n + kThreads - 1) / kThreads;
  if (blocks > kMaxBlocks) {
    blocks = kMaxBlocks;
  }
  gelu_kernel<<<blocks, kThreads>>>(x, out, n);
  return cudaGetLastError();
}
