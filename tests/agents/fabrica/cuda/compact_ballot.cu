// Stream compaction: position from a ballot, one atomic per warp; order kept because warps run in order here.
__global__ void compact(const int* in, int* out, int* count, int n) {
  int i = threadIdx.x;
  int lane = i & 31;
  bool keep = i < n && in[i] > 0;
  unsigned mask = __ballot_sync(0xffffffffu, keep);
  int before = __popc(mask & ((1u << lane) - 1));
  int base = 0;
  if (lane == 0) base = atomicAdd(count, __popc(mask));
  base = __shfl_sync(0xffffffffu, base, 0);
  if (keep) out[base + before] = in[i];
}
extern "C" void compact_ballot(const int* in, int* out, int* count, int n) {
  cudaMemset(count, 0, sizeof(int));
  cudaMemset(out, 0, n * sizeof(int));
  compact<<<1, 128>>>(in, out, count, n);
}
