// Attention in float32. 64 rows and a tile of keys at a time; thread (tx, ty) of 16 x 8 has rows ty+8i and keys tx+16j of the scores, so that 16
// lanes of a warp share a row, and the same rows of the result.
#include "attention.cuh"

template <int D>
struct PlainAttention {
    static constexpr int rows = 64, threads = 128, key_tile = keys_of_tile(D), keys_each = key_tile / 16;
    static constexpr int pitch = D + 4;        // float4s of 8 rows beside each other lie in different banks
    static constexpr int weights_pitch = key_tile + 16;  // two rows beside each other lie in different halves of the banks
    static constexpr int vector = D % 64 == 0 ? 4 : D % 32 == 0 ? 2 : 1;  // numbers that a thread reads at once of a value
    static constexpr int columns = D / 16;
    static constexpr int shared = (rows * pitch + key_tile * pitch + key_tile * D + rows * weights_pitch) * int(sizeof(float));

    // column is where number c of thread tx's part of a value stands.
    static __device__ __forceinline__ int column(int tx, int c) { return c / vector * (16 * vector) + tx * vector + c % vector; }

    // load begins to copy a tile of keys or values from `first` on, zeros beyond n and beyond dim.
    template <int to_pitch>
    static __device__ __forceinline__ void load(float* to, const float* from, int first, int n, int dim) {
        from += (long long)first * dim;
        n -= first;
        if (dim % 4 == 0) {
            for (int i = threadIdx.x; i < key_tile * (D / 4); i += threads) {
                int r = i / (D / 4), c = i % (D / 4) * 4;
                bool there = r < n && c < dim;
                copy_async(to + r * to_pitch + c, there ? from + r * dim + c : from, there);
            }
        } else {
            for (int i = threadIdx.x; i < key_tile * D; i += threads) {
                int r = i / D, c = i % D;
                to[r * to_pitch + c] = r < n && c < dim ? from[r * dim + c] : 0.0f;
            }
        }
        copy_commit();
    }

    static __device__ __forceinline__ void run(float* dst, const float* q, const Attended<float>& a, Segment s, int heads) {
        SHARED(memory);
        float* queries = reinterpret_cast<float*>(memory);
        float* keys = queries + rows * pitch;
        float* values = keys + key_tile * pitch;
        float* weights = values + key_tile * D;
        const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
        const long long width = (long long)heads * a.dim;
        q += s.row * width + head_of_block() * a.dim;
        dst += s.row * width + head_of_block() * a.dim;

        load<pitch>(keys, a.k, 0, a.keys, a.dim);
        for (int i = threadIdx.x; i < rows * D; i += threads) {
            int r = i / D, c = i % D;
            queries[r * pitch + c] = r < s.rows && c < a.dim ? q[r * width + c] * a.scale : 0.0f;
        }
        float top[8], sum[8], o[8][columns];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            top[i] = -INFINITE;
            sum[i] = 0.0f;
#pragma unroll
            for (int c = 0; c < columns; c++) o[i][c] = 0.0f;
        }
        for (int first = 0; first < a.keys; first += key_tile) {
            copy_wait<0>();
            __syncthreads();  // the keys are there, and the values of the last tile are done with
            load<D>(values, a.v, first, a.keys, a.dim);

            float score[8][keys_each] = {};
#pragma unroll 2
            for (int d = 0; d < D; d += 4) {
                float4 k[keys_each];
#pragma unroll
                for (int j = 0; j < keys_each; j++) k[j] = *reinterpret_cast<const float4*>(keys + (tx + 16 * j) * pitch + d);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float4 x = *reinterpret_cast<const float4*>(queries + (ty + 8 * i) * pitch + d);
#pragma unroll
                    for (int j = 0; j < keys_each; j++) score[i][j] = fmaf(x.x, k[j].x, fmaf(x.y, k[j].y, fmaf(x.z, k[j].z, fmaf(x.w, k[j].w, score[i][j]))));
                }
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int limit = a.limit(ty + 8 * i) - first;
                float highest = top[i];
#pragma unroll
                for (int j = 0; j < keys_each; j++) {
                    if (tx + 16 * j >= limit) score[i][j] = -INFINITE;
                    highest = fmaxf(highest, score[i][j]);
                }
#pragma unroll
                for (int lane = 8; lane > 0; lane >>= 1) highest = fmaxf(highest, __shfl_xor_sync(FULL_WARP, highest, lane));
                float shrink = power2(top[i] - highest);
                top[i] = highest;
                sum[i] *= shrink;
#pragma unroll
                for (int c = 0; c < columns; c++) o[i][c] *= shrink;
#pragma unroll
                for (int j = 0; j < keys_each; j++) {
                    float p = power2(score[i][j] - highest);
                    sum[i] += p;
                    weights[(ty + 8 * i) * weights_pitch + tx + 16 * j] = p;
                }
            }
            copy_wait<0>();
            __syncthreads();  // the values and weights are there, and the keys are done with
            if (first + key_tile < a.keys) load<pitch>(keys, a.k, first + key_tile, a.keys, a.dim);

#pragma unroll 2
            for (int key = 0; key < key_tile; key += 4) {
                float v[4][columns];
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int c = 0; c < columns; c += vector) {
                        const float* at = values + (key + j) * D + column(tx, c);
                        if constexpr (vector == 4) *reinterpret_cast<float4*>(&v[j][c]) = *reinterpret_cast<const float4*>(at);
                        else if constexpr (vector == 2) *reinterpret_cast<float2*>(&v[j][c]) = *reinterpret_cast<const float2*>(at);
                        else v[j][c] = *at;
                    }
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float4 p = *reinterpret_cast<const float4*>(weights + (ty + 8 * i) * weights_pitch + key);
#pragma unroll
                    for (int c = 0; c < columns; c++) o[i][c] = fmaf(p.x, v[0][c], fmaf(p.y, v[1][c], fmaf(p.z, v[2][c], fmaf(p.w, v[3][c], o[i][c]))));
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int r = ty + 8 * i;
#pragma unroll
            for (int lane = 8; lane > 0; lane >>= 1) sum[i] += __shfl_xor_sync(FULL_WARP, sum[i], lane);
            float scale = __fdividef(1.0f, sum[i]);
#pragma unroll
            for (int c = 0; c < columns; c++) {
                int at = column(tx, c);
                if (r < s.rows && at < a.dim) dst[r * width + at] = o[i][c] * scale;
            }
        }
    }
};

#define PLAIN_ATTENTION(D)                                                                                                                          \
    extern "C" __global__ void __launch_bounds__(128)                                                                                               \
        unmask_attention_##D(const float* q, const float* k, const float* v, const Segment* segs, int heads, int dim, int length, int keys,         \
                             int span, float scale, float* dst) {                                                                                   \
        Segment s = segs[blockIdx.x];                                                                                                               \
        PlainAttention<D>::run(dst, q, Attended<float>(k, v, s, dim, length, keys, span, scale), s, heads);                                         \
    }                                                                                                                                               \
    EXPORT(unmask_attention_##D)

PLAIN_ATTENTION(32)
PLAIN_ATTENTION(48)
PLAIN_ATTENTION(64)
PLAIN_ATTENTION(128)
