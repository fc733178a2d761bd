// SplitHeads where key and value heads serve several query heads each, or only the first numbers of a head turn.
#include "common.cuh"

// turn_head copies a head of dim numbers, the pairs (i, i+half) rotated. A warp does it.
__device__ __forceinline__ void turn_head(float* to, const float* x, int dim, const float* cos, const float* sin, int half) {
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < dim; i += 32) {
        float a = x[i];
        if (i < half) a = fmaf(a, cos[i], -x[i + half] * sin[i]);
        else if (i < 2 * half) a = fmaf(a, cos[i - half], x[i - half] * sin[i - half]);
        to[i] = a;
    }
}

// A block has a segment's rows blockIdx.y*8 + warp, and every gridDim.y*8 after. qkv [*, heads+2*kv, dim], angles [positions, half].
extern "C" __global__ void __launch_bounds__(256)
    unmask_split_grouped(const float* qkv, const Segment* segs, const int* pos, int heads, int kv, int dim, int length, const float* cos, const float* sin, int half,
                         float* q, float* k, float* v) {
    const Segment s = segs[blockIdx.x];
    int warps = blockDim.x / 32;
    for (int i = blockIdx.y * warps + threadIdx.x / 32; i < s.rows; i += gridDim.y * warps) {
        long long row = s.row + i, at = pos[row];
        const float *x = qkv + row * (heads + 2 * kv) * dim, *co = cos + at * half, *si = sin + at * half;
#pragma unroll 1
        for (int h = 0; h < heads; h++) turn_head(q + (row * heads + h) * dim, x + h * dim, dim, co, si, half);
#pragma unroll 1
        for (int h = 0; h < kv; h++) {
            long long to = (((long long)s.seq * kv + h) * length + at) * dim;
            turn_head(k + to, x + (heads + h) * dim, dim, co, si, half);
            turn_head(v + to, x + (heads + kv + h) * dim, dim, co, si, 0);
        }
    }
}
EXPORT(unmask_split_grouped)
