// Inclusive prefix sum: out[i] = x[0] + ... + x[i].

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 512;

// One block walks over the vector, one chunk of `lanes` elements after another. A chunk is scanned in shared memory
// by the doubling method; `carry` holds the sum of all chunks before it.
__global__ void prefix_sum_kernel(const float* __restrict__ x, float* __restrict__ out, int n) {
  __shared__ float partial[kThreads];
  __shared__ float carry;
  const int lane = threadIdx.x;
  const int lanes = blockDim.x;
  if (lane == 0) {
    carry = 0.0f;
  }
  for (int base = 0; base < n; base += lanes) {
    const int i = base + lane;
    partial[lane] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int offset = 1; offset < lanes; offset *= 2) {
      const float left = lane >= offset ? partial[lane - offset] : 0.0f;
      __syncthreads();
      partial[lane] += left;
      __syncthreads();
    }
    if (i < n) {
      out[i] = carry + partial[lane];
    }
    __syncthreads();
    if (lane == 0) {
      carry += partial[lanes - 1];
    }
    __syncthreads();
  }
}

}  // namespace

// x and out are device pointers to n floats.
extern "C" cudaError_t prefix_sum(const float* x, float* out, int n) {
  if (n <= 0) {
    return cudaSuccess;
  }
  prefix_sum_kernel<<<1, kThreads>>>(x, out, n);
  return cudaGetLastError();
}
