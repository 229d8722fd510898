// Conjugate gradients with the diagonal as preconditioner for A x = b, where A is the seven-point operator of a grid of width x height columns of k cells;
// cell z of column (column, row) is element (row * width + column) * k + z. Golub and Van Loan, algorithm 10.3.1.

#include <cuda_runtime.h>

namespace {

// shared: product kernel
constexpr int kThreads = 128;
constexpr int kCoefficients = 7;  // center, west, east, south, north, bottom, top

// One block per column and kThreads cells of it: y = A x, with zeros outside of the grid.
__global__ void product_kernel(const float* __restrict__ stencil_coeff, const float* __restrict__ x, float* __restrict__ y,
                               int width, int height, int k) {
  __shared__ float coefficient[kCoefficients];
  const int column = blockIdx.x;
  const int row = blockIdx.y;
  const int pe = row * width + column;
  if (threadIdx.x < kCoefficients) {
    coefficient[threadIdx.x] = stencil_coeff[pe * kCoefficients + threadIdx.x];
  }
  __syncthreads();
  const int z = blockIdx.z * blockDim.x + threadIdx.x;
  if (z >= k) {
    return;
  }
  const int cell = pe * k + z;
  float sum = coefficient[0] * x[cell];
  if (column > 0) {
    sum += coefficient[1] * x[cell - k];
  }
  if (column + 1 < width) {
    sum += coefficient[2] * x[cell + k];
  }
  if (row + 1 < height) {
    sum += coefficient[3] * x[cell + width * k];
  }
  if (row > 0) {
    sum += coefficient[4] * x[cell - width * k];
  }
  if (z > 0) {
    sum += coefficient[5] * x[cell - 1];
  }
  if (z + 1 < k) {
    sum += coefficient[6] * x[cell + 1];
  }
  y[cell] = sum;
}
// end of shared: product kernel

// shared: vector kernels
constexpr int kWarp = 32;
constexpr int kMaxBlocks = 64;

// *sum += inner product of u and v.
__global__ void dot_kernel(const float* __restrict__ u, const float* __restrict__ v, float* sum, int count) {
  __shared__ float warp_sums[kThreads / kWarp];
  float own = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    own += u[i] * v[i];
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    own += __shfl_down_sync(0xffffffffu, own, offset);
  }
  if (threadIdx.x % kWarp == 0) {
    warp_sums[threadIdx.x / kWarp] = own;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kThreads / kWarp; ++warp) {
      own += warp_sums[warp];
    }
    atomicAdd(sum, own);
  }
}

// y = u + factor * v; y may be u or v.
__global__ void combine_kernel(float* y, const float* u, float factor, const float* v, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    y[i] = u[i] + factor * v[i];
  }
}

// y = factor * u
__global__ void scale_kernel(float* __restrict__ y, float factor, const float* __restrict__ u, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    y[i] = factor * u[i];
  }
}

int blocks_of(int count) { return (count + kThreads - 1) / kThreads; }

// Device memory for some vectors of `count` floats, and for a sum.
class Vectors {
 public:
  Vectors(int vectors, int count) : count_(count) {
    status_ = cudaMalloc(&memory_, (static_cast<size_t>(vectors) * count + 1) * sizeof(float));
    sum_ = memory_ == nullptr ? nullptr : memory_ + static_cast<size_t>(vectors) * count;
  }
  ~Vectors() { cudaFree(memory_); }
  Vectors(const Vectors&) = delete;
  Vectors& operator=(const Vectors&) = delete;

  cudaError_t status() const { return status_; }
  float* operator[](int index) const { return memory_ + static_cast<size_t>(index) * count_; }

  // Inner product of two device vectors on the host. After an error it is 0, and status() tells.
  float dot(const float* u, const float* v) {
    float sum = 0.0f;
    keep(cudaMemset(sum_, 0, sizeof(float)));
    const int blocks = blocks_of(count_) < kMaxBlocks ? blocks_of(count_) : kMaxBlocks;
    dot_kernel<<<blocks, kThreads>>>(u, v, sum_, count_);
    keep(cudaGetLastError());
    keep(cudaMemcpy(&sum, sum_, sizeof(float), cudaMemcpyDeviceToHost));
    return status_ == cudaSuccess ? sum : 0.0f;
  }

  // y = u + factor * v
  void combine(float* y, const float* u, float factor, const float* v) {
    combine_kernel<<<blocks_of(count_), kThreads>>>(y, u, factor, v, count_);
    keep(cudaGetLastError());
  }

  // y = factor * u
  void scale(float* y, float factor, const float* u) {
    scale_kernel<<<blocks_of(count_), kThreads>>>(y, factor, u, count_);
    keep(cudaGetLastError());
  }

  void copy(float* to, const float* from) {
    keep(cudaMemcpy(to, from, static_cast<size_t>(count_) * sizeof(float), cudaMemcpyDeviceToDevice));
  }

  void keep(cudaError_t status) {
    if (status_ == cudaSuccess) {
      status_ = status;
    }
  }

 private:
  int count_;
  cudaError_t status_ = cudaSuccess;
  float* memory_ = nullptr;
  float* sum_ = nullptr;
};

// The operator, on device pointers.
struct Operator {
  const float* stencil_coeff;
  int width;
  int height;
  int k;

  // y = A x
  void apply(Vectors& vectors, const float* x, float* y) const {
    const dim3 blocks(width, height, blocks_of(k));
    product_kernel<<<blocks, kThreads>>>(stencil_coeff, x, y, width, height, k);
    vectors.keep(cudaGetLastError());
  }
};
// end of shared: vector kernels

// z = r divided by the diagonal; one block per column and kThreads cells of it.
__global__ void precondition_kernel(const float* __restrict__ stencil_coeff, const float* __restrict__ r, float* __restrict__ z,
                                    int k) {
  const int i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i < k) {
    z[blockIdx.x * k + i] = r[blockIdx.x * k + i] / stencil_coeff[blockIdx.x * kCoefficients];
  }
}

void precondition(const Operator& a, Vectors& vectors, const float* r, float* z) {
  precondition_kernel<<<dim3(a.width * a.height, blocks_of(a.k)), kThreads>>>(a.stencil_coeff, r, z, a.k);
  vectors.keep(cudaGetLastError());
}

}  // namespace

// stencil_coeff: device pointer to height * width * 7 floats; b: to height * width * k floats; x: the same, first guess and
// result; xi: to one float that receives |b - A x|^2. Stops when that is at most tol^2, or after max_ite iterations.
extern "C" cudaError_t preconditioned_cg(const float* stencil_coeff, const float* b, float* x, float* xi, float tol,
                                         unsigned short max_ite, int width, int height, int k) {
  const Operator a{stencil_coeff, width, height, k};
  Vectors vectors(4, width * height * k);
  if (vectors.status() != cudaSuccess) {
    return vectors.status();
  }
  float* r = vectors[0];
  float* p = vectors[1];
  float* w = vectors[2];
  float* z = vectors[3];

  a.apply(vectors, x, w);
  vectors.combine(r, b, -1.0f, w);
  precondition(a, vectors, r, p);
  float rho = vectors.dot(r, p);
  float norm = vectors.dot(r, r);
  for (int iteration = 0; iteration < max_ite && norm > tol * tol; ++iteration) {
    a.apply(vectors, p, w);
    const float alpha = rho / vectors.dot(p, w);
    vectors.combine(x, x, alpha, p);
    vectors.combine(r, r, -alpha, w);
    precondition(a, vectors, r, z);
    const float old_rho = rho;
    rho = vectors.dot(r, z);
    norm = vectors.dot(r, r);
    vectors.combine(p, z, rho / old_rho, p);
  }
  vectors.keep(cudaMemcpy(xi, &norm, sizeof(float), cudaMemcpyHostToDevice));
  return vectors.status();
}
