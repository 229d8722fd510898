#include "fabrica_cuda.h"
// Groups of a block by the functions that they stand for. A tile is what its threads' shuffles know: whole warps, or
// parts of them of a power of two.
#ifndef FABRICA_COOPERATIVE_GROUPS_H
#define FABRICA_COOPERATIVE_GROUPS_H
namespace cooperative_groups {
__device__ inline unsigned rank_in_block() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
struct thread_block {
  __device__ unsigned thread_rank() const { return rank_in_block(); }
  __device__ unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ unsigned num_threads() const { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ dim3 group_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  __device__ dim3 thread_index() const { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  __device__ void sync() const { __syncthreads(); }
};
__device__ inline thread_block this_thread_block() { thread_block b; return b; }
template <unsigned N> struct thread_block_tile {
  __device__ unsigned thread_rank() const { return rank_in_block() % N; }
  __device__ unsigned meta_group_rank() const { return rank_in_block() / N; }
  __device__ unsigned meta_group_size() const { return (blockDim.x * blockDim.y * blockDim.z + N - 1) / N; }
  __device__ unsigned size() const { return N; }
  __device__ unsigned num_threads() const { return N; }
  __device__ void sync() const { __syncwarp(); }
  template <class T> __device__ T shfl(T v, int lane) const { return __shfl_sync(0xffffffffu, v, lane, N); }
  template <class T> __device__ T shfl_up(T v, unsigned d) const { return __shfl_up_sync(0xffffffffu, v, d, N); }
  template <class T> __device__ T shfl_down(T v, unsigned d) const { return __shfl_down_sync(0xffffffffu, v, d, N); }
  template <class T> __device__ T shfl_xor(T v, int m) const { return __shfl_xor_sync(0xffffffffu, v, m, N); }
};
template <unsigned N, class G> __device__ inline thread_block_tile<N> tiled_partition(const G& group) {
  thread_block_tile<N> t;
  return t;
}
template <class T> struct plus { __device__ T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { __device__ T operator()(T a, T b) const { return a < b ? a : b; } };
template <class T> struct greater { __device__ T operator()(T a, T b) const { return a > b ? a : b; } };
template <unsigned N, class T, class F>
__device__ inline T reduce(const thread_block_tile<N>& group, T v, F combine) {
  for (int m = N / 2; m > 0; m /= 2) v = combine(v, __shfl_xor_sync(0xffffffffu, v, m, N));
  return v;
}
template <class G> __device__ inline void sync(const G& group) { group.sync(); }
}  // namespace cooperative_groups
#endif
