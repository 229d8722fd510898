// Each thread reads and writes through pointers that it chooses between two arrays.
__device__ const float* pick(const float* x, const float* y, int i) {
  if (i % 3 == 0) return x;
  if (i % 3 == 1) return y + 1;
  return x + 2;
}
__global__ void merge(const float* x, const float* y, float* low, float* high, int n) {
  __shared__ float part[2][8];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[0][threadIdx.x] = x[i];
  part[1][threadIdx.x] = y[i];
  __syncthreads();
  const float* p = x[i] > y[i] ? x : y;
  float* out = i & 1 ? low : high;
  out += 1;
  out[i] = p[i];
  out[i] *= 2.0f;
  const float* other = x;
  if (i > n / 2) other = y + 1;
  out[i] += *other;
  (y[i] > 0.0f ? low[i + n + 1] : high[i + n + 1]) = (x[i] < 0 ? part[0] : y)[threadIdx.x];
  high[i + 2 * n + 1] = pick(x, y, i)[i] + (pick(x, y, i + 1) == x ? 1.0f : 0.0f);
  const float* last = nullptr;
  for (int k = 0; k < 4; ++k) {
    if (x[(i + k) % n] > 1.0f) last = k % 2 ? x + k : y + k;
    if (y[(i + k) % n] > 1.5f) break;
  }
  const float* table;
  switch (i % 5) {
    case 0: table = x; break;
    case 3: table = y; break;
    default: table = part[1];
  }
  atomicAdd(high, *table);
  atomicAdd(i % 4 < 2 ? low : high, 1.0f);
  low[i + 2 * n + 1] = last ? *last : -1.0f;
}
extern "C" void pointer_select(const float* x, const float* y, float* low, float* high, int n) {
  merge<<<n / 8, 8>>>(x, y, low, high, n);
}
