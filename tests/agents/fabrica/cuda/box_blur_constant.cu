/* 2-D blocks with an apron in shared memory, weights in constant memory, clamped borders. */
#define R 2
#define BX 8
#define BY 4
__constant__ float w[2 * R + 1] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};

template <typename T>
__device__ inline T clampi(T v, T lo, T hi) { return v < lo ? lo : (v > hi ? hi : v); }

__global__ void blur(const float* img, float* res, int h, int wd) {
  __shared__ float s[BY + 2 * R][BX + 2 * R];
  const int ox = blockIdx.x * BX, oy = blockIdx.y * BY;
  for (int y = threadIdx.y; y < BY + 2 * R; y += BY)
    for (int x = threadIdx.x; x < BX + 2 * R; x += BX)
      s[y][x] = img[clampi(oy + y - R, 0, h - 1) * wd + clampi(ox + x - R, 0, wd - 1)];
  __syncthreads();
  const int px = ox + threadIdx.x, py = oy + threadIdx.y;
  if (px >= wd || py >= h) return;
  float acc = 0.f;
#pragma unroll
  for (int j = -R; j <= R; ++j)
#pragma unroll
    for (int i = -R; i <= R; ++i) acc += w[j + R] * w[i + R] * s[threadIdx.y + R + j][threadIdx.x + R + i];
  res[py * wd + px] = acc;
}

extern "C" void box_blur_constant(const float* img, float* res, int rows, int cols) {
  dim3 b(BX, BY), g((cols + BX - 1) / BX, (rows + BY - 1) / BY);
  blur<<<g, b>>>(img, res, rows, cols);
}
