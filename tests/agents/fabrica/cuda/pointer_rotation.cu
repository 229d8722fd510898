// A scan whose threads exchange the roles of two shared arrays by moving pointers.
__global__ void scan(const float* x, float* y, int n) {
  __shared__ float a[32], b[32];
  int i = threadIdx.x;
  float* from = a;
  float* to = b;
  from[i] = x[i];
  __syncthreads();
  for (int step = 1; step < n; step *= 2) {
    to[i] = i >= step ? from[i] + from[i - step] : from[i];
    __syncthreads();
    float* old = from;
    from = to;
    to = old;
  }
  y[i] = from[i];
}
extern "C" void pointer_rotation(const float* x, float* y, int n) {
  scan<<<1, 32>>>(x, y, n);
}
