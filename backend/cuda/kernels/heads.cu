// SplitHeads: queries, keys and values out of rows of qkv, queries and keys rotated.
#include "common.cuh"

// rotated turns the pair (a, b) by an angle.
__device__ __forceinline__ float rotated(float a, float b, float cos, float sin) { return fmaf(a, cos, -b * sin); }

__device__ __forceinline__ void rotate(float& a, float& b, float cos, float sin) {
    float x = a, y = b;
    a = rotated(x, y, cos, sin);
    b = rotated(y, x, cos, -sin);
}
__device__ __forceinline__ void rotate(float4& a, float4& b, float4 cos, float4 sin) {
    rotate(a.x, b.x, cos.x, sin.x);
    rotate(a.y, b.y, cos.y, sin.y);
    rotate(a.z, b.z, cos.z, sin.z);
    rotate(a.w, b.w, cos.w, sin.w);
}

// Heads is where queries [rows, heads*dim] and keys or values [batch, heads, length, dim] go, as float32 and as bfloat16; either may be null.
struct Heads {
    float* wide;
    unsigned short* narrow;

    template <class V> __device__ __forceinline__ void store(long long i, V v) const {
        if (wide) reinterpret_cast<V*>(wide)[i] = v;
        if (narrow) store_bf16(narrow, i, v);
    }
};

// split_row gives each thread numbers i and, with angles, i+dim/2 of a head's query, key and value. V is float or float4.
template <class V>
__device__ __forceinline__ void split_row(const Heads& q, const Heads& k, const Heads& v, const float* qkv, long long row, int seq, int pos, int heads, int dim,
                                          int length, const float* cos, const float* sin) {
    constexpr int per = sizeof(V) / sizeof(float);
    const int part = (cos ? dim / 2 : dim) / per, width = heads * dim / per, lane = threadIdx.x % 32;
    const V* x = reinterpret_cast<const V*>(qkv) + row * 3 * width;
    for (int n = lane; n < heads * part; n += 32) {
        int head = n / part, i = n % part, from = head * (dim / per) + i;
        long long to_q = row * width + from, to = (((long long)seq * heads + head) * length + pos) * (dim / per) + i;
        V a = x[from], b = x[from + width], c = x[from + 2 * width];
        if (cos) {
            V a2 = x[from + part], b2 = x[from + part + width], c2 = x[from + part + 2 * width];
            long long angle = (long long)pos * part + i;
            V co = reinterpret_cast<const V*>(cos)[angle], si = reinterpret_cast<const V*>(sin)[angle];
            rotate(a, a2, co, si);
            rotate(b, b2, co, si);
            q.store(to_q + part, a2);
            k.store(to + part, b2);
            v.store(to + part, c2);
        }
        q.store(to_q, a);
        k.store(to, b);
        v.store(to, c);
    }
}

// A block has a segment's rows blockIdx.y*8 + warp, and every gridDim.y*8 after.
extern "C" __global__ void __launch_bounds__(256)
    unmask_split_heads(const float* qkv, const Segment* segs, const int* pos, int heads, int dim, int length, const float* cos, const float* sin, float* q,
                       unsigned short* narrow_q, float* k, unsigned short* narrow_k, float* v, unsigned short* narrow_v) {
    const Segment s = segs[blockIdx.x];
    const Heads to_q = {q, narrow_q}, to_k = {k, narrow_k}, to_v = {v, narrow_v};
    int warps = blockDim.x / 32;
    for (int i = blockIdx.y * warps + threadIdx.x / 32; i < s.rows; i += gridDim.y * warps) {
        long long row = s.row + i;
        if (dim % (cos ? 8 : 4) == 0) split_row<float4>(to_q, to_k, to_v, qkv, row, s.seq, pos[row], heads, dim, length, cos, sin);
        else split_row<float>(to_q, to_k, to_v, qkv, row, s.seq, pos[row], heads, dim, length, cos, sin);
    }
}
EXPORT(unmask_split_heads)
