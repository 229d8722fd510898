// Declarations that let libclang parse CUDA sources without any toolkit. Written for Fabrica-Bench; only the
// signatures matter: the front end recognises the functions by name and gives them their meaning.
#ifndef FABRICA_CUDA_H
#define FABRICA_CUDA_H

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#ifndef __restrict__
#define __restrict__ __restrict
#endif
#define __CUDACC__ 1
#define FHD __host__ __device__

typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long ulong;
#define NULL 0

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define CUDART_INF_F (__builtin_inff())
#define CUDART_NAN_F (__builtin_nanf(""))
#define CUDART_PI_F 3.141592654f
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 3.402823466e+38
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define CHAR_BIT 8
#define M_PI 3.14159265358979323846
#define M_SQRT1_2 0.70710678118654752440
#define M_SQRT2 1.41421356237309504880
#define M_2_SQRTPI 1.12837916709551257390
#define M_LN2 0.69314718055994530942
#define M_LOG2E 1.44269504088896340736
#define M_E 2.71828182845904523536
#define EXIT_FAILURE 1
#define EXIT_SUCCESS 0

struct dim3 {
  unsigned int x, y, z;
  FHD constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
};
struct uint3 { unsigned int x, y, z; };
#define FABRICA_VEC(T, N) \
  struct N##1 { T x; }; struct __align__(2 * sizeof(T)) N##2 { T x, y; }; struct N##3 { T x, y, z; }; \
  struct __align__(4 * sizeof(T)) N##4 { T x, y, z, w; }; \
  FHD N##2 make_##N##2(T x, T y); FHD N##3 make_##N##3(T x, T y, T z); FHD N##4 make_##N##4(T x, T y, T z, T w);
FABRICA_VEC(float, float)
FABRICA_VEC(int, int)
FABRICA_VEC(short, short)
FABRICA_VEC(unsigned char, uchar)
FABRICA_VEC(unsigned short, ushort)
struct uint2 { unsigned int x, y; };
struct uint4 { unsigned int x, y, z, w; };
FHD uint2 make_uint2(unsigned int x, unsigned int y);
FHD uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w);

typedef _Float16 __half;
typedef _Float16 half;

extern const __device__ uint3 threadIdx;
extern const __device__ uint3 blockIdx;
extern const __device__ dim3 blockDim;
extern const __device__ dim3 gridDim;
constexpr int warpSize = 32;

typedef int cudaError_t;
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout };
#define cudaSuccess 0
#define cudaMemAttachGlobal 1
#define cudaStreamNonBlocking 1
extern "C" {
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, void* stream = 0);
int cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, void* stream = 0);
cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind);
cudaError_t cudaMemset(void* dst, int value, size_t count);
cudaError_t cudaFree(void* p);
cudaError_t cudaFreeHost(void* p);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaThreadSynchronize();
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaDeviceReset();
cudaError_t cudaSetDevice(int device);
cudaError_t cudaStreamCreate(cudaStream_t* s);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaEventCreate(cudaEvent_t* e);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b);
const char* cudaGetErrorString(cudaError_t e);
const char* cudaGetErrorName(cudaError_t e);
int printf(const char* format, ...);
void exit(int code);
void abort();
void* malloc(size_t n);
void* calloc(size_t n, size_t size);
void free(void* p);
FHD void* memcpy(void* dst, const void* src, size_t n);
FHD void* memset(void* dst, int value, size_t n);
}
cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind, cudaStream_t s = 0);
cudaError_t cudaMemsetAsync(void* dst, int value, size_t count, cudaStream_t s = 0);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s = 0);
cudaError_t cudaFreeAsync(void* p, cudaStream_t s);
template <class T> cudaError_t cudaMalloc(T** p, size_t n);
template <class T> cudaError_t cudaMallocAsync(T** p, size_t n, cudaStream_t s);
template <class T> cudaError_t cudaMallocManaged(T** p, size_t n, unsigned flags = 1);
template <class T> cudaError_t cudaMallocHost(T** p, size_t n);
template <class T> cudaError_t cudaMemcpyToSymbol(T& symbol, const void* src, size_t n, size_t offset = 0,
                                                  cudaMemcpyKind kind = cudaMemcpyHostToDevice);
template <class T> cudaError_t cudaMemcpyFromSymbol(void* dst, T& symbol, size_t n, size_t offset = 0,
                                                    cudaMemcpyKind kind = cudaMemcpyDeviceToHost);
template <class F> cudaError_t cudaFuncSetAttribute(F f, cudaFuncAttribute a, int v);
template <class F> cudaError_t cudaOccupancyMaxPotentialBlockSize(int* g, int* b, F f, size_t s = 0, int limit = 0);
extern struct FILE* stderr;
extern struct FILE* stdout;
int fprintf(struct FILE* f, const char* format, ...);
#define assert(x) ((void)0)

__device__ void __syncthreads();
__device__ void __syncwarp(unsigned mask = 0xffffffffu);
__device__ int __syncthreads_count(int p);
__device__ int __syncthreads_and(int p);
__device__ int __syncthreads_or(int p);
__device__ void __threadfence();
__device__ void __threadfence_block();
__device__ void __threadfence_system();
__device__ unsigned __activemask();
__device__ unsigned __ballot_sync(unsigned mask, int p);
__device__ int __any_sync(unsigned mask, int p);
__device__ int __all_sync(unsigned mask, int p);
template <class T> __device__ T __shfl_sync(unsigned mask, T v, int lane, int width = 32);
template <class T> __device__ T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32);
template <class T> __device__ T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32);
template <class T> __device__ T __shfl_xor_sync(unsigned mask, T v, int lane, int width = 32);
__device__ int __reduce_add_sync(unsigned mask, int v);
__device__ int __reduce_max_sync(unsigned mask, int v);
__device__ int __reduce_min_sync(unsigned mask, int v);

#define FABRICA_ATOMIC(N) template <class T, class U> __device__ T atomic##N(T* p, U v); \
  template <class T, class U> __device__ T atomic##N##_block(T* p, U v);
FABRICA_ATOMIC(Add) FABRICA_ATOMIC(Sub) FABRICA_ATOMIC(Max) FABRICA_ATOMIC(Min) FABRICA_ATOMIC(And) FABRICA_ATOMIC(Or)
FABRICA_ATOMIC(Xor) FABRICA_ATOMIC(Exch) FABRICA_ATOMIC(Inc) FABRICA_ATOMIC(Dec)
template <class T> __device__ T atomicCAS(T* p, T compare, T v);

#define FABRICA_F1(N) FHD float N##f(float x); FHD double N(double x); FHD float N(float x);
FABRICA_F1(exp) FABRICA_F1(exp2) FABRICA_F1(expm1) FABRICA_F1(log) FABRICA_F1(log2) FABRICA_F1(log10) FABRICA_F1(log1p)
FABRICA_F1(sqrt) FABRICA_F1(rsqrt) FABRICA_F1(cbrt) FABRICA_F1(sin) FABRICA_F1(cos) FABRICA_F1(tan) FABRICA_F1(sinh)
FABRICA_F1(cosh) FABRICA_F1(tanh) FABRICA_F1(asin) FABRICA_F1(acos) FABRICA_F1(atan) FABRICA_F1(erf) FABRICA_F1(erfc)
FABRICA_F1(floor) FABRICA_F1(ceil) FABRICA_F1(round) FABRICA_F1(trunc) FABRICA_F1(rint) FABRICA_F1(fabs)
#define FABRICA_F2(N) FHD float N##f(float x, float y); FHD double N(double x, double y); FHD float N(float x, float y);
FABRICA_F2(pow) FABRICA_F2(fmod) FABRICA_F2(fmax) FABRICA_F2(fmin) FABRICA_F2(atan2) FABRICA_F2(hypot)
FABRICA_F2(copysign) FABRICA_F2(fdim)
FHD float fmaf(float a, float b, float c); FHD double fma(double a, double b, double c);
FHD float fma(float a, float b, float c);
__device__ float __expf(float x); __device__ float __exp10f(float x); __device__ float __logf(float x);
__device__ float __log2f(float x); __device__ float __log10f(float x); __device__ float __sinf(float x);
__device__ float __cosf(float x); __device__ float __tanf(float x); __device__ float __powf(float x, float y);
__device__ float __fdividef(float x, float y); __device__ float __saturatef(float x); __device__ float __frcp_rn(float x);
__device__ float __fsqrt_rn(float x); __device__ float __frsqrt_rn(float x); __device__ float __fadd_rn(float x, float y);
__device__ float __fsub_rn(float x, float y); __device__ float __fmul_rn(float x, float y);
__device__ float __fdiv_rn(float x, float y); __device__ float __fmaf_rn(float a, float b, float c);
FHD bool isnan(float x); FHD bool isinf(float x); FHD bool isfinite(float x); FHD bool signbit(float x);
FHD int abs(int x); FHD float abs(float x); FHD double abs(double x); FHD long labs(long x);
#define FABRICA_MINMAX(T) FHD T max(T a, T b); FHD T min(T a, T b);
FABRICA_MINMAX(int) FABRICA_MINMAX(unsigned int) FABRICA_MINMAX(long) FABRICA_MINMAX(unsigned long)
FABRICA_MINMAX(long long) FABRICA_MINMAX(unsigned long long) FABRICA_MINMAX(float) FABRICA_MINMAX(double)
FHD unsigned max(int a, unsigned b); FHD unsigned max(unsigned a, int b);
FHD unsigned min(int a, unsigned b); FHD unsigned min(unsigned a, int b);
__device__ int __mul24(int a, int b); __device__ unsigned __umul24(unsigned a, unsigned b);
__device__ int __popc(unsigned x); __device__ int __clz(int x); __device__ int __ffs(int x); __device__ unsigned __brev(unsigned x);
__device__ int __float_as_int(float x); __device__ unsigned __float_as_uint(float x);
__device__ float __int_as_float(int x); __device__ float __uint_as_float(unsigned x);
__device__ float __int2float_rn(int x); __device__ float __uint2float_rn(unsigned x); __device__ int __float2int_rz(float x);
__device__ int __float2int_rd(float x); __device__ int __float2int_rn(float x); __device__ unsigned __float2uint_rz(float x);
FHD inline void sincosf(float x, float* s, float* c) { *s = sinf(x); *c = cosf(x); }
FHD inline void sincos(double x, double* s, double* c) { *s = sin(x); *c = cos(x); }
FHD inline void __sincosf(float x, float* s, float* c) { *s = sinf(x); *c = cosf(x); }
FHD inline float exp10f(float x) { return powf(10.0f, x); }
FHD inline float nearbyintf(float x) { return rintf(x); }
FHD inline long lroundf(float x) { return (long)roundf(x); }
FHD inline long lrintf(float x) { return (long)rintf(x); }
FHD inline float fdividef(float x, float y) { return x / y; }
FHD inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
FHD inline int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
FHD inline unsigned __usad(int a, int b, unsigned c) { return c + (unsigned)(a > b ? a - b : b - a); }
FHD inline int __sad(int a, int b, unsigned c) { return (int)(c + (unsigned)(a > b ? a - b : b - a)); }
FHD inline int __float2int_ru(float x) { return (int)ceilf(x); }
FHD inline unsigned __float2uint_rn(float x) { return (unsigned)rintf(x); }
FHD inline unsigned __float2uint_rd(float x) { return (unsigned)floorf(x); }
struct __half2 { __half x, y; };
typedef __half2 half2;
FHD float2 __half22float2(__half2 h); FHD __half2 __float22half2_rn(float2 f);
FHD inline bool __hgt(__half a, __half b) { return a > b; }
FHD inline bool __hge(__half a, __half b) { return a >= b; }
FHD inline bool __hlt(__half a, __half b) { return a < b; }
FHD inline bool __hle(__half a, __half b) { return a <= b; }
FHD inline bool __heq(__half a, __half b) { return a == b; }
FHD inline bool __hne(__half a, __half b) { return a != b; }
FHD inline __half __hneg(__half a) { return -a; }
FHD inline __half __habs(__half a) { return a < (__half)0.0f ? -a : a; }
FHD inline __half __hdiv(__half a, __half b) { return a / b; }
FHD inline __half __hmax(__half a, __half b) { return a > b ? a : b; }
FHD inline __half __hmin(__half a, __half b) { return a < b ? a : b; }
FHD inline __half __low2half(__half2 h) { return h.x; }
FHD inline __half __high2half(__half2 h) { return h.y; }
FHD inline float __low2float(__half2 h) { return (float)h.x; }
FHD inline float __high2float(__half2 h) { return (float)h.y; }
FHD inline __half2 __halves2half2(__half a, __half b) { __half2 r; r.x = a; r.y = b; return r; }
FHD inline __half2 __half2half2(__half a) { return __halves2half2(a, a); }
FHD inline __half2 __float2half2_rn(float a) { return __halves2half2((__half)a, (__half)a); }
FHD inline __half2 __floats2half2_rn(float a, float b) { return __halves2half2((__half)a, (__half)b); }
FHD inline __half2 __hadd2(__half2 a, __half2 b) { return __halves2half2(a.x + b.x, a.y + b.y); }
FHD inline __half2 __hsub2(__half2 a, __half2 b) { return __halves2half2(a.x - b.x, a.y - b.y); }
FHD inline __half2 __hmul2(__half2 a, __half2 b) { return __halves2half2(a.x * b.x, a.y * b.y); }
FHD inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __halves2half2(a.x * b.x + c.x, a.y * b.y + c.y);
}
FHD float __half2float(__half h); FHD __half __float2half(float f); FHD __half __float2half_rn(float f);
__device__ __half __hadd(__half a, __half b); __device__ __half __hsub(__half a, __half b);
__device__ __half __hmul(__half a, __half b); __device__ __half __hfma(__half a, __half b, __half c);
template <class T> FHD T __ldg(const T* p);
template <class T> FHD T __ldcs(const T* p);
template <class T> FHD void __stcs(T* p, T v);

namespace std {
using ::size_t; using ::ptrdiff_t; using ::int32_t; using ::uint32_t; using ::int64_t; using ::uint64_t; using ::int16_t;
using ::uint16_t; using ::int8_t; using ::uint8_t;
using ::exp; using ::log; using ::sqrt; using ::sin; using ::cos; using ::tanh; using ::pow; using ::floor; using ::ceil;
using ::fabs; using ::fmax; using ::fmin; using ::abs; using ::round; using ::isnan; using ::isinf; using ::fma; using ::erf;
using ::memcpy; using ::memset; using ::printf; using ::exit;
template <class T> FHD constexpr const T& max(const T& a, const T& b) { return a > b ? a : b; }
template <class T> FHD constexpr const T& min(const T& a, const T& b) { return a < b ? a : b; }
template <class T> FHD void swap(T& a, T& b) { T t = a; a = b; b = t; }
template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
  FHD static constexpr float max() { return FLT_MAX; } FHD static constexpr float lowest() { return -FLT_MAX; }
  FHD static constexpr float min() { return FLT_MIN; } FHD static constexpr float infinity() { return INFINITY; }
  FHD static constexpr float epsilon() { return FLT_EPSILON; }
};
template <> struct numeric_limits<int> {
  FHD static constexpr int max() { return INT_MAX; } FHD static constexpr int min() { return INT_MIN; }
  FHD static constexpr int lowest() { return INT_MIN; }
};
template <> struct numeric_limits<unsigned> {
  FHD static constexpr unsigned max() { return UINT_MAX; } FHD static constexpr unsigned min() { return 0; }
};
}  // namespace std
#undef FHD
#endif
