// Data-dependent trip counts.
__global__ void steps(const int* start, int* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    int v = start[i];
    int c = 0;
    while (v != 1) {
      v = (v % 2 == 0) ? v / 2 : 3 * v + 1;
      ++c;
    }
    count[i] = c;
  }
}
extern "C" void collatz(const int* start, int* count, int n) { steps<<<1, n>>>(start, count, n); }
