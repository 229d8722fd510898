// Noise from a shift register of each thread, popcounts and rotations; no float anywhere.
typedef unsigned int u32;
#define ROTL(v, s) (((v) << (s)) | ((v) >> (32 - (s))))

__device__ __noinline__ u32 step(u32 state) {
  state ^= state << 13;
  state ^= state >> 17;
  return state ^ (state << 5);
}

__global__ void scramble(const u32* const seed, u32* word, int* ones, const int n, const int rounds) {
  for (int id = blockIdx.x * blockDim.x + threadIdx.x; id < n; id += blockDim.x * gridDim.x) {
    u32 v = seed[id] | 1u;
    int k = rounds;
    while (k-- > 0) {
      v = step(v);
      switch (v & 3u) {
        case 0: v = ROTL(v, 7); break;
        case 1: v += 0x9e3779b9u; break;
        case 2: v = ~v;  // and on
        default: v ^= (u32)id;
      }
    }
    word[id] = v;
    ones[id] = __popc(v) + (v >> 31 ? -1 : 0);
  }
}

extern "C" void lfsr_bits(const unsigned* seed, unsigned* word, int* ones, int n, int rounds) {
  scramble<<<dim3(2), dim3(16, 1, 1)>>>(seed, word, ones, n, rounds);
}
