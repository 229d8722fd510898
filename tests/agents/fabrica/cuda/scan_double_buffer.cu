// Hillis-Steele with two halves of one shared array, swapped every round; one block.
__global__ void scan(float* g_odata, const float* g_idata, int n) {
  extern __shared__ float temp[];
  int thid = threadIdx.x;
  int pout = 0, pin = 1;
  temp[pout * n + thid] = g_idata[thid];
  __syncthreads();
  for (int offset = 1; offset < n; offset *= 2) {
    pout = 1 - pout;
    pin = 1 - pout;
    if (thid >= offset)
      temp[pout * n + thid] = temp[pin * n + thid] + temp[pin * n + thid - offset];
    else
      temp[pout * n + thid] = temp[pin * n + thid];
    __syncthreads();
  }
  g_odata[thid] = temp[pout * n + thid];
}
extern "C" void scan_double_buffer(const float* x, float* out, int n) {
  scan<<<1, n, 2 * n * sizeof(float)>>>(out, x, n);
}
