// Seven-point sum with a halo in shared memory; the input carries its own margins.
#define RADIUS 3
#define BLOCK_SIZE 64
__global__ void stencil_1d_kernel(const float* in, float* out, int n) {
  __shared__ float temp[BLOCK_SIZE + 2 * RADIUS];
  int gindex = threadIdx.x + blockIdx.x * blockDim.x;
  int lindex = threadIdx.x + RADIUS;
  temp[lindex] = gindex < n + RADIUS ? in[gindex + RADIUS] : 0.f;
  if (threadIdx.x < RADIUS) {
    temp[lindex - RADIUS] = in[gindex];
    int right = gindex + BLOCK_SIZE + RADIUS;
    temp[lindex + BLOCK_SIZE] = right < n + 2 * RADIUS ? in[right] : 0.f;
  }
  __syncthreads();
  float result = 0;
  for (int offset = -RADIUS; offset <= RADIUS; offset++) result += temp[lindex + offset];
  if (gindex < n) out[gindex] = result;
}
extern "C" void stencil_1d(const float* in, float* out, int n) {
  stencil_1d_kernel<<<(n + BLOCK_SIZE - 1) / BLOCK_SIZE, BLOCK_SIZE>>>(in, out, n);
}
