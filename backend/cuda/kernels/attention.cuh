// What both kinds of attention share. A block has some rows of a segment (its own Segment) and one head, and walks over the keys from the first to
// the last in tiles with an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022): no scores are written to memory, and a row's
// arithmetic is the same whichever rows are beside it. A tile that a row does not see leaves its numbers as they are, bit for bit.
#pragma once

#include "common.cuh"

// keys_of_tile is how many keys of D numbers a tile has: so many that a block fits in the 99 KB of shared memory that every GPU has.
constexpr int keys_of_tile(int D) { return D <= 64 ? 64 : 32; }

// head_of_block is the block's query head: blockIdx.y is that of its keys and values, blockIdx.z which of those that share it.
__device__ __forceinline__ int head_of_block() { return blockIdx.y * gridDim.z + blockIdx.z; }

// Attended are the keys and values of a block. Scores are taken times `scale`, which is log2(e)/sqrt(dim): the softmax is of powers of 2.
template <class T>
struct Attended {
    const T *k, *v;  // of the block's sequence and head, [length, dim]
    int dim, keys, span, pos;  // span: a row sees keys up to its own position with these bits set, the end of its block
    float scale;

    __device__ __forceinline__ Attended(const T* k, const T* v, Segment s, int dim, int length, int keys, int span, float scale)
        : dim(dim), keys(min(keys, ((s.pos + s.rows - 1) | span) + 1)), span(span), pos(s.pos), scale(scale) {
        long long first = ((long long)s.seq * gridDim.y + blockIdx.y) * length * dim;
        this->k = k + first;
        this->v = v + first;
    }
    // limit is how many keys a row of the block sees.
    __device__ __forceinline__ int limit(int row) const { return min(keys, ((pos + row) | span) + 1); }
};

// power2 is 2^x to 2 units in the last place, 0 for -Inf.
__device__ __forceinline__ float power2(float x) {
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}
