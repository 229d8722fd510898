// `continue` in a do-while loop goes to its condition.
__global__ void k(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    int s = 0, c = 0;
    do {
      ++c;
      if (c % 3 == 0) continue;
      s += c;
    } while (c < x[i]);
    y[i] = s;
  }
}
extern "C" void do_while_continue(const int* x, int* y, int n) { k<<<1, 32>>>(x, y, n); }
