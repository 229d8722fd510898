// Product of two long integers in 16-bit words: the threads of a block add up the products of one place of the result each,
// then a single thread passes the carries on.

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;

__global__ void wide_multiply_kernel(const unsigned short* __restrict__ left, const unsigned short* __restrict__ right,
                                     unsigned short* __restrict__ result, int n_words, int result_words) {
  extern __shared__ unsigned long long places[];
  for (int place = threadIdx.x; place < result_words; place += blockDim.x) {
    const int first = place < n_words ? 0 : place - n_words + 1;
    const int last = place < n_words ? place : n_words - 1;
    unsigned long long sum = 0;
    for (int i = first; i <= last; ++i) {
      sum += static_cast<unsigned long long>(left[i]) * right[place - i];
    }
    places[place] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned long long carry = 0;
    for (int place = 0; place < result_words; ++place) {
      carry += places[place];
      result[place] = static_cast<unsigned short>(carry & 0xffffu);
      carry >>= 16;
    }
  }
}

}  // namespace

// left, right: num_bits / 32 words each, of which the first n_words count; result: num_bits / 16 words; all on the device,
// the least significant word first.
extern "C" cudaError_t wide_multiply(const unsigned short* left, const unsigned short* right, unsigned short n_words,
                                     unsigned short* result, int num_bits) {
  const int result_words = num_bits / 16;
  const size_t shared_bytes = static_cast<size_t>(result_words) * sizeof(unsigned long long);
  wide_multiply_kernel<<<1, kThreads, shared_bytes>>>(left, right, result, n_words, result_words);
  return cudaGetLastError();
}
