// Fourier transform of a vector (DIM 1) or of a square plane (DIM 2) of complex numbers, Nz a power of two.

#include <cuda_runtime.h>

namespace {

constexpr int kMaxThreads = 256;
constexpr int kTile = 16;

// One block per row of Nz elements: Stockham's radix-2 transform between two buffers in shared memory.
// sign is that of the factors' sines: 1 forward, -1 inverse.
__global__ void transform_rows_kernel(float2* __restrict__ rows, const float2* __restrict__ twiddle, float sign, float scale,
                                      int Nz) {
  extern __shared__ float2 buffers[];
  float2* from = buffers;
  float2* to = buffers + Nz;
  float2* row = rows + static_cast<size_t>(blockIdx.x) * Nz;
  for (int i = threadIdx.x; i < Nz; i += blockDim.x) {
    from[i] = row[i];
  }
  __syncthreads();
  for (int run = 1; run < Nz; run *= 2) {  // elements that share a factor
    for (int i = threadIdx.x; i < Nz / 2; i += blockDim.x) {
      const float2 low = from[i];
      const float2 high = from[i + Nz / 2];
      const float2 difference = make_float2(low.x - high.x, low.y - high.y);
      const float2 factor = twiddle[i / run * run];
      const float sine = sign * factor.y;
      const int place = i / run * 2 * run + i % run;
      to[place] = make_float2(low.x + high.x, low.y + high.y);
      to[place + run] = make_float2(difference.x * factor.x + difference.y * sine,
                                    difference.y * factor.x - difference.x * sine);
    }
    __syncthreads();
    float2* const written = to;
    to = from;
    from = written;
  }
  for (int i = threadIdx.x; i < Nz; i += blockDim.x) {
    row[i] = make_float2(scale * from[i].x, scale * from[i].y);
  }
}

// Transpose a plane in place: a block exchanges two tiles that mirror each other.
__global__ void transpose_kernel(float2* plane, int Nz) {
  __shared__ float2 upper[kTile][kTile + 1];
  __shared__ float2 lower[kTile][kTile + 1];
  if (blockIdx.x < blockIdx.y) {
    return;  // the mirrored block does it
  }
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  const int mirrored_row = blockIdx.x * kTile + threadIdx.y;
  const int mirrored_column = blockIdx.y * kTile + threadIdx.x;
  const bool inside = row < Nz && column < Nz;
  const bool mirrored_inside = mirrored_row < Nz && mirrored_column < Nz;
  if (inside) {
    upper[threadIdx.y][threadIdx.x] = plane[static_cast<size_t>(row) * Nz + column];
  }
  if (mirrored_inside) {
    lower[threadIdx.y][threadIdx.x] = plane[static_cast<size_t>(mirrored_row) * Nz + mirrored_column];
  }
  __syncthreads();
  if (inside) {
    plane[static_cast<size_t>(row) * Nz + column] = lower[threadIdx.x][threadIdx.y];
  }
  if (mirrored_inside) {
    plane[static_cast<size_t>(mirrored_row) * Nz + mirrored_column] = upper[threadIdx.x][threadIdx.y];
  }
}

}  // namespace

// X: device pointer to Nz (DIM 1) or Nz * Nz (DIM 2, row by row) pairs of real and imaginary part, changed in place.
// f_twiddle: device pointer to Nz / 2 pairs of cosine and sine of 2 pi j / Nz. inverse: 0 forward, else inverse, which
// divides by the number of elements.
extern "C" cudaError_t fft(float* X, const float* f_twiddle, unsigned short inverse, int DIM, int Nz) {
  float2* rows = reinterpret_cast<float2*>(X);
  const float2* twiddle = reinterpret_cast<const float2*>(f_twiddle);
  const float sign = inverse != 0 ? -1.0f : 1.0f;
  const float scale = inverse != 0 ? 1.0f / static_cast<float>(Nz) : 1.0f;
  const int row_count = DIM == 2 ? Nz : 1;
  const int threads = Nz / 2 < kMaxThreads ? (Nz + 1) / 2 : kMaxThreads;
  const size_t shared_bytes = 2 * static_cast<size_t>(Nz) * sizeof(float2);

  transform_rows_kernel<<<row_count, threads, shared_bytes>>>(rows, twiddle, sign, scale, Nz);
  if (DIM == 2) {
    const int tiles = (Nz + kTile - 1) / kTile;
    transpose_kernel<<<dim3(tiles, tiles), dim3(kTile, kTile)>>>(rows, Nz);
    transform_rows_kernel<<<row_count, threads, shared_bytes>>>(rows, twiddle, sign, scale, Nz);
    transpose_kernel<<<dim3(tiles, tiles), dim3(kTile, kTile)>>>(rows, Nz);
  }
  return cudaGetLastError();
}
