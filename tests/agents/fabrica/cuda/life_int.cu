// Game of life on a torus, integers.
__global__ void life(const int* in, int* out, int h, int w) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < w && y < h) {
    int neighbours = 0;
    for (int dy = -1; dy <= 1; dy++)
      for (int dx = -1; dx <= 1; dx++) {
        if (dx == 0 && dy == 0) continue;
        neighbours += in[((y + dy + h) % h) * w + (x + dx + w) % w];
      }
    int alive = in[y * w + x];
    out[y * w + x] = (neighbours == 3 || (alive && neighbours == 2)) ? 1 : 0;
  }
}
extern "C" void life_int(const int* in, int* out, int h, int w) {
  life<<<dim3((w + 3) / 4, (h + 3) / 4), dim3(4, 4)>>>(in, out, h, w);
}
