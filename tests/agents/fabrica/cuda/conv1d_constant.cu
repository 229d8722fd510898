// Filter taps in constant memory, zero padding.
#define TAPS 5
__constant__ float c_taps[TAPS];
__global__ void conv(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float acc = 0.f;
#pragma unroll
  for (int k = 0; k < TAPS; ++k) {
    int j = i + k - TAPS / 2;
    if (j >= 0 && j < n) acc += c_taps[k] * in[j];
  }
  out[i] = acc;
}
extern "C" void conv1d_constant(const float* x, const float* taps, float* y, int n) {
  cudaMemcpyToSymbol(c_taps, taps, TAPS * sizeof(float));
  conv<<<(n + 63) / 64, 64>>>(x, y, n);
}
