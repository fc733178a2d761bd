// Copies of rows and what is done to numbers one by one: Gather, AddRows, Scatter, Activate, Modulate, GateAdd.
//
// A row is a warp's. V is float4 where width is a multiple of 4 (tensors start at multiples of 16 bytes), or float.
#include "common.cuh"

// rows_per_block warps of 32 threads.
constexpr int rows_per_block = 8;

__device__ __forceinline__ int row_of_warp() { return blockIdx.x * rows_per_block + threadIdx.x / 32; }

__device__ __forceinline__ float add(float a, float b) { return a + b; }
__device__ __forceinline__ float4 add(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ float4 multiply_add(float4 a, float4 b, float4 c) {
    return make_float4(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w));
}
__device__ __forceinline__ float one_more(float a) { return a + 1.0f; }
__device__ __forceinline__ float4 one_more(float4 a) { return make_float4(a.x + 1.0f, a.y + 1.0f, a.z + 1.0f, a.w + 1.0f); }

template <class V> __device__ __forceinline__ V* row_at(float* x, long long row, int width) { return reinterpret_cast<V*>(x + row * width); }
template <class V> __device__ __forceinline__ const V* row_at(const float* x, long long row, int width) {
    return reinterpret_cast<const V*>(x + row * width);
}
template <class V> __device__ __forceinline__ int vectors(int width) { return width / int(sizeof(V) / sizeof(float)); }

// to[i] = from[i], or to[i] += from[i].
template <class V, bool sum>
__device__ __forceinline__ void copy_row(float* to, long long to_row, const float* from, long long from_row, int width) {
    V* y = row_at<V>(to, to_row, width);
    const V* x = row_at<V>(from, from_row, width);
    int n = vectors<V>(width);
#pragma unroll 4
    for (int i = threadIdx.x % 32; i < n; i += 32) y[i] = sum ? add(y[i], x[i]) : x[i];
}

extern "C" __global__ void __launch_bounds__(256) unmask_gather(float* dst, const float* src, const int* from, int rows, int width) {
    int i = row_of_warp();
    if (i >= rows) return;
    if (width % 4 == 0) copy_row<float4, false>(dst, i, src, from[i], width);
    else copy_row<float, false>(dst, i, src, from[i], width);
}
EXPORT(unmask_gather)

extern "C" __global__ void __launch_bounds__(256) unmask_add_rows(float* dst, const float* src, const int* from, int rows, int width) {
    int i = row_of_warp();
    if (i >= rows) return;
    if (width % 4 == 0) copy_row<float4, true>(dst, i, src, from[i], width);
    else copy_row<float, true>(dst, i, src, from[i], width);
}
EXPORT(unmask_add_rows)

extern "C" __global__ void __launch_bounds__(256) unmask_scatter(float* dst, const float* src, const int* to, int rows, int width) {
    int i = row_of_warp();
    if (i >= rows) return;
    if (width % 4 == 0) copy_row<float4, false>(dst, to[i], src, i, width);
    else copy_row<float, false>(dst, to[i], src, i, width);
}
EXPORT(unmask_scatter)

// activate_exactly is right to the last place or two over all of float32, where activate loses relative precision in the tails.
__device__ double activate_exactly(double x, int f) {
    if (f == Identity) return x;
    if (f == ReLU) return x < 0.0 ? 0.0 : x;
    if (x < -3.5e38) return 0.0;  // of -Inf, the limit
    if (f == GELUErf) return 0.5 * x * erfc(-0.70710678118654752440 * x);
    double u = f == SiLU ? x : 1.5957691216057307117597842397375 * (x + 0.044715 * x * x * x);
    return x / (1.0 + exp(-u));
}

extern "C" __global__ void __launch_bounds__(256) unmask_activate(float* x, long long n, int f) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        x[i] = (float)activate_exactly(x[i], f);
}
EXPORT(unmask_activate)

// A block has a segment's rows blockIdx.y*8 + warp, and every gridDim.y*8 after. Results go as float32 to dst, which may be x, and as bfloat16 to
// narrow, where they are not null.
template <class V>
__device__ __forceinline__ void modulate(const float* x, const float* scale, const float* shift, Segment s, int width, float* dst, unsigned short* narrow) {
    const V *a = row_at<V>(scale, s.seq, width), *b = row_at<V>(shift, s.seq, width);
    int n = vectors<V>(width);
    for (int i = blockIdx.y * rows_per_block + threadIdx.x / 32; i < s.rows; i += gridDim.y * rows_per_block) {
        const long long row = s.row + i;
#pragma unroll 4
        for (int j = threadIdx.x % 32; j < n; j += 32) {
            V y = multiply_add(row_at<V>(x, row, width)[j], one_more(a[j]), b[j]);
            if (dst) row_at<V>(dst, row, width)[j] = y;
            if (narrow) store_bf16(narrow + row * width, j, y);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) unmask_modulate(const float* x, const float* scale, const float* shift, const Segment* segs, int width, float* dst,
                                                                  unsigned short* narrow) {
    if (width % 4 == 0) modulate<float4>(x, scale, shift, segs[blockIdx.x], width, dst, narrow);
    else modulate<float>(x, scale, shift, segs[blockIdx.x], width, dst, narrow);
}
EXPORT(unmask_modulate)

// Rows are those of modulate.
template <class V>
__device__ __forceinline__ void gate_add(float* dst, const float* x, const float* gate, Segment s, int width) {
    const V* g = row_at<V>(gate, s.seq, width);
    int n = vectors<V>(width);
    for (int i = blockIdx.y * rows_per_block + threadIdx.x / 32; i < s.rows; i += gridDim.y * rows_per_block) {
        V* y = row_at<V>(dst, s.row + i, width);
        const V* v = row_at<V>(x, s.row + i, width);
#pragma unroll 4
        for (int j = threadIdx.x % 32; j < n; j += 32) y[j] = multiply_add(g[j], v[j], y[j]);
    }
}

extern "C" __global__ void __launch_bounds__(256) unmask_gate_add(const float* x, const float* gate, const Segment* segs, int width, float* dst) {
    if (width % 4 == 0) gate_add<float4>(dst, x, gate, segs[blockIdx.x], width);
    else gate_add<float>(dst, x, gate, segs[blockIdx.x], width);
}
EXPORT(unmask_gate_add)
