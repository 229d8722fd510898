// Work-efficient scan of blocks, scan of the block sums, uniform addition.
#define T 32
__global__ void scan_block(const float* in, float* out, float* sums, int n) {
  __shared__ float temp[2 * T];
  int thid = threadIdx.x;
  int base = blockIdx.x * 2 * T;
  int offset = 1;
  float first = (base + 2 * thid < n) ? in[base + 2 * thid] : 0.0f;
  float second = (base + 2 * thid + 1 < n) ? in[base + 2 * thid + 1] : 0.0f;
  temp[2 * thid] = first;
  temp[2 * thid + 1] = second;
  for (int d = T; d > 0; d >>= 1) {
    __syncthreads();
    if (thid < d) {
      int ai = offset * (2 * thid + 1) - 1;
      int bi = offset * (2 * thid + 2) - 1;
      temp[bi] += temp[ai];
    }
    offset *= 2;
  }
  if (thid == 0) {
    sums[blockIdx.x] = temp[2 * T - 1];
    temp[2 * T - 1] = 0;
  }
  for (int d = 1; d < 2 * T; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (thid < d) {
      int ai = offset * (2 * thid + 1) - 1;
      int bi = offset * (2 * thid + 2) - 1;
      float t = temp[ai];
      temp[ai] = temp[bi];
      temp[bi] += t;
    }
  }
  __syncthreads();
  if (base + 2 * thid < n) out[base + 2 * thid] = temp[2 * thid] + first;
  if (base + 2 * thid + 1 < n) out[base + 2 * thid + 1] = temp[2 * thid + 1] + second;
}
__global__ void scan_sums(float* sums, int blocks) {
  float running = 0.0f;
  for (int b = 0; b < blocks; b++) {
    float s = sums[b];
    sums[b] = running;
    running += s;
  }
}
__global__ void add_sums(float* out, const float* sums, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += sums[blockIdx.x];
}
extern "C" void scan_blelloch(const float* x, float* out, int n) {
  int blocks = (n + 2 * T - 1) / (2 * T);
  float* sums = nullptr;
  cudaMalloc(&sums, sizeof(float) * blocks);
  scan_block<<<blocks, T>>>(x, out, sums, n);
  scan_sums<<<1, 1>>>(sums, blocks);
  add_sums<<<blocks, 2 * T>>>(out, sums, n);
  cudaFree(sums);
}
