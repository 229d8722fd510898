// One block per row: maximum, exponentials, sum, division.
#include <cmath>
__global__ void softmax(const float* in, float* out, int cols) {
  __shared__ float buf[64];
  const float* row = in + blockIdx.x * cols;
  float* dst = out + blockIdx.x * cols;
  int t = threadIdx.x;
  float m = -INFINITY;
  for (int c = t; c < cols; c += blockDim.x) m = fmaxf(m, row[c]);
  buf[t] = m;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (t < s) buf[t] = fmaxf(buf[t], buf[t + s]);
    __syncthreads();
  }
  m = buf[0];
  __syncthreads();
  float sum = 0.f;
  for (int c = t; c < cols; c += blockDim.x) {
    float e = expf(row[c] - m);
    dst[c] = e;
    sum += e;
  }
  buf[t] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (t < s) buf[t] += buf[t + s];
    __syncthreads();
  }
  float inv = 1.0f / buf[0];
  for (int c = t; c < cols; c += blockDim.x) dst[c] *= inv;
}
extern "C" void softmax_rows(const float* x, float* out, int rows, int cols) {
  softmax<<<rows, 64>>>(x, out, cols);
}
