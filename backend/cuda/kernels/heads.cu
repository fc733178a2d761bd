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

// split_row gives each thread numbers i and, with angles, i+dim/2 of a head's query, key and value. V is float or float4.
template <class V>
__device__ __forceinline__ void split_row(float* q, float* k, float* v, const float* qkv, int seq, int pos, int heads, int dim, int length,
                                          const float* cos, const float* sin) {
    const V* x = reinterpret_cast<const V*>(qkv);
    constexpr int per = sizeof(V) / sizeof(float);
    int part = (cos ? dim / 2 : dim) / per, width = heads * dim / per, lane = threadIdx.x % 32;
    for (int n = lane; n < heads * part; n += 32) {
        int head = n / part, i = n % part, from = head * (dim / per) + i;
        long long to = (((long long)seq * heads + head) * length + pos) * (dim / per) + i;
        V a = x[from], b = x[from + width], c = x[from + 2 * width];
        if (cos) {
            V a2 = x[from + part], b2 = x[from + part + width], c2 = x[from + part + 2 * width];
            long long angle = (long long)pos * part + i;
            V co = reinterpret_cast<const V*>(cos)[angle], si = reinterpret_cast<const V*>(sin)[angle];
            rotate(a, a2, co, si);
            rotate(b, b2, co, si);
            reinterpret_cast<V*>(q)[from + part] = a2;
            reinterpret_cast<V*>(k)[to + part] = b2;
            reinterpret_cast<V*>(v)[to + part] = c2;
        }
        reinterpret_cast<V*>(q)[from] = a;
        reinterpret_cast<V*>(k)[to] = b;
        reinterpret_cast<V*>(v)[to] = c;
    }
}

// A block has a segment's rows blockIdx.y*8 + warp, and every gridDim.y*8 after.
extern "C" __global__ void __launch_bounds__(256) unmask_split_heads(float* q, float* k, float* v, const float* qkv, const Segment* segs, const int* pos, int heads,
                                                                     int dim, int length, const float* cos, const float* sin) {
    Segment s = segs[blockIdx.x];
    int warps = blockDim.x / 32;
    long long width = (long long)heads * dim;
    for (int i = blockIdx.y * warps + threadIdx.x / 32; i < s.rows; i += gridDim.y * warps) {
        long long row = s.row + i;
        if (dim % (cos ? 8 : 4) == 0) split_row<float4>(q + row * width, k, v, qkv + row * 3 * width, s.seq, pos[row], heads, dim, length, cos, sin);
        else split_row<float>(q + row * width, k, v, qkv + row * 3 * width, s.seq, pos[row], heads, dim, length, cos, sin);
    }
}
EXPORT(unmask_split_heads)
