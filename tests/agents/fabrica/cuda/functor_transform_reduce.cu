// A generic transform and reduce in the manner of libraries: functors as template arguments, block size as a number.
struct Square { __host__ __device__ float operator()(float x) const { return x * x; } };
struct AbsDiff {
  float shift;
  __host__ __device__ explicit AbsDiff(float s) : shift(s) {}
  __host__ __device__ float operator()(float x) const { return fabsf(x - shift); }
};
struct Plus { __device__ float operator()(float a, float b) const { return a + b; } };
struct Max { __device__ float operator()(float a, float b) const { return a > b ? a : b; } };

template <int N, class Map, class Op>
__global__ void transform_reduce(const float* __restrict__ in, float* __restrict__ out, int count, Map map, Op op,
                                 float init) {
  __shared__ float buf[N];
  float acc = init;
  for (int i = threadIdx.x; i < count; i += N) acc = op(acc, map(in[i]));
  buf[threadIdx.x] = acc;
  __syncthreads();
#pragma unroll
  for (int s = N / 2; s >= 1; s >>= 1) {
    if (threadIdx.x < s) buf[threadIdx.x] = op(buf[threadIdx.x], buf[threadIdx.x + s]);
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = buf[0];
}

extern "C" void functor_transform_reduce(const float* x, float* energy, float* spread, int n, float center) {
  transform_reduce<64><<<1, 64>>>(x, energy, n, Square(), Plus(), 0.0f);
  transform_reduce<32><<<1, 32>>>(x, spread, n, AbsDiff(center), Max(), 0.0f);
}
