// Host arrays: allocation, copies in, two kernels, copy out; errors checked by a macro.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CHECK(call)                                                        \
  do {                                                                     \
    cudaError_t err = (call);                                              \
    if (err != cudaSuccess) {                                              \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
      exit(EXIT_FAILURE);                                                  \
    }                                                                      \
  } while (0)
constexpr int BLOCK = 64;
__global__ void partial_dot(const float* a, const float* b, float* partial, int n) {
  __shared__ float cache[BLOCK];
  int tid = threadIdx.x + blockIdx.x * blockDim.x;
  int cacheIndex = threadIdx.x;
  float temp = 0;
  while (tid < n) {
    temp += a[tid] * b[tid];
    tid += blockDim.x * gridDim.x;
  }
  cache[cacheIndex] = temp;
  __syncthreads();
  int i = blockDim.x / 2;
  while (i != 0) {
    if (cacheIndex < i) cache[cacheIndex] += cache[cacheIndex + i];
    __syncthreads();
    i /= 2;
  }
  if (cacheIndex == 0) partial[blockIdx.x] = cache[0];
}
__global__ void finish(const float* partial, float* result, int count) {
  float sum = 0.0f;
  for (int k = 0; k < count; ++k) sum += partial[k];
  result[0] = sum;
}
extern "C" void dot_two_kernels(const float* h_a, const float* h_b, float* h_result, int n) {
  float *d_a, *d_b, *d_partial, *d_result;
  const int blocks = 2;
  CHECK(cudaMalloc((void**)&d_a, n * sizeof(float)));
  CHECK(cudaMalloc((void**)&d_b, n * sizeof(float)));
  CHECK(cudaMalloc((void**)&d_partial, blocks * sizeof(float)));
  CHECK(cudaMalloc((void**)&d_result, sizeof(float)));
  CHECK(cudaMemcpy(d_a, h_a, n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_b, h_b, n * sizeof(float), cudaMemcpyHostToDevice));
  partial_dot<<<blocks, BLOCK>>>(d_a, d_b, d_partial, n);
  CHECK(cudaGetLastError());
  finish<<<1, 1>>>(d_partial, d_result, blocks);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(h_result, d_result, sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(d_a));
  CHECK(cudaFree(d_b));
  CHECK(cudaFree(d_partial));
  CHECK(cudaFree(d_result));
}
