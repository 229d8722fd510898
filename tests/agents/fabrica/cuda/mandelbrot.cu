// Divergent loop with a break.
__global__ void mandel(int* out, int w, int h, int limit) {
  int px = blockIdx.x * blockDim.x + threadIdx.x;
  int py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= w || py >= h) return;
  float cr = -2.0f + 3.0f * px / w, ci = -1.0f + 2.0f * py / h;
  float zr = 0, zi = 0;
  int k = 0;
  for (; k < limit; ++k) {
    float r2 = zr * zr, i2 = zi * zi;
    if (r2 + i2 > 4.0f) break;
    zi = 2 * zr * zi + ci;
    zr = r2 - i2 + cr;
  }
  out[py * w + px] = k;
}
extern "C" void mandelbrot(int* out, int width, int height, int limit) {
  mandel<<<dim3((width + 7) / 8, (height + 7) / 8), dim3(8, 8)>>>(out, width, height, limit);
}
