// Attention on tensor cores: queries, keys, values and weights rounded to bfloat16, softmax and sums in float32. A warp has 16*M rows
// and all keys of a tile; its scores become the weights of the second product where they are, in registers.
//
// Where keys and values are float32 in memory, each thread copies its part of the next tile in the background, and turns it into bfloat16 once it is
// there. Where there is a copy in bfloat16, the next tile is copied to its place.
#include "attention.cuh"

template <int D, int M, class T>
struct TensorAttention {
    static constexpr int key_tile = keys_of_tile(D);
    static constexpr bool narrow_input = sizeof(T) == 2;
    static constexpr int pitch = D + 8;  // of rows of bfloat16: 16 bytes of 8 rows beside each other lie in different banks
    static constexpr int waiting = narrow_input ? 0 : key_tile * D * int(sizeof(float));

    // Part is what a thread copies of a tile: 16 bytes of row, row+step, ... of both keys and values.
    static constexpr int each = 16 / int(sizeof(T)), across = (D <= 32 ? 32 : D <= 64 ? 64 : 128) / each;  // threads that share a row, of which the last may have nothing
    struct Part {
        int column, row, step;
        __device__ __forceinline__ Part() : column(threadIdx.x % across * each), row(threadIdx.x / across), step(blockDim.x / across) {}
    };

    // load begins to copy the tile at `first` to rows to_pitch apart, zeros beyond the last key and beyond dim, which is a multiple of 16 bytes.
    template <int to_pitch>
    static __device__ __forceinline__ void load(T* keys, T* values, const Attended<T>& a, int first, Part part) {
        if (part.column >= D) return;
        const long long from = (long long)(first + part.row) * a.dim + part.column;
        const T *k = a.k + from, *v = a.v + from;
        const int n = part.column < a.dim ? a.keys - first : 0, step = part.step * a.dim;
        int at = part.row * to_pitch + part.column;
#pragma unroll 2
        for (int r = part.row; r < key_tile; r += part.step) {
            bool there = r < n;
            copy_async(keys + at, there ? k : a.k, there);
            copy_async(values + at, there ? v : a.v, there);
            k += step;
            v += step;
            at += part.step * to_pitch;
        }
    }

    // round turns what this thread copied into bfloat16.
    static __device__ __forceinline__ void round(unsigned short* to, const float* from) {
        float4 x = *reinterpret_cast<const float4*>(from);
        *reinterpret_cast<uint2*>(to) = make_uint2(bf16_pair(x.x, x.y), bf16_pair(x.z, x.w));
    }
    static __device__ __forceinline__ void convert(unsigned short* keys, unsigned short* values, const float* from_keys, const float* from_values, Part part) {
        if (part.column >= D) return;
        int from = part.row * D + part.column, to = part.row * pitch + part.column;
#pragma unroll 2
        for (int r = part.row; r < key_tile; r += part.step) {
            round(keys + to, from_keys + from);
            round(values + to, from_values + from);
            from += part.step * D;
            to += part.step * pitch;
        }
    }

    // query reads two numbers beside each other of a row of q.
    static __device__ __forceinline__ unsigned query(const T* q, bool there, int column, int dim) {
        if (!there || column >= dim) return 0;
        if constexpr (narrow_input) {
            return *reinterpret_cast<const unsigned*>(q + column);
        } else {
            float2 x = *reinterpret_cast<const float2*>(q + column);
            return bf16_pair(x.x, x.y);
        }
    }

    // run writes the result as float32 to dst and as bfloat16 to narrow, where they are not null.
    static __device__ __forceinline__ void run(float* dst, unsigned short* narrow, const T* q, const Attended<T>& a, Segment s, int heads) {
        SHARED(memory);
        T* next_keys = reinterpret_cast<T*>(memory);
        T* next_values = next_keys + key_tile * D;
        unsigned short* tiles = reinterpret_cast<unsigned short*>(memory + 2 * waiting);  // keys and values, twice
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp_row = threadIdx.x / 32 * (16 * M);
        const long long width = (long long)heads * a.dim;
        const long long first_row = s.row * width + head_of_block() * a.dim;
        q += first_row;

        const Part part;
        if constexpr (narrow_input) load<pitch>(tiles, tiles + key_tile * pitch, a, 0, part);
        else load<D>(next_keys, next_values, a, 0, part);
        copy_commit();

        unsigned x[M][D / 16][4];
        float o[M][D / 8][4], top[M][2], sum[M][2];
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int d = 0; d < D / 16; d++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int r = warp_row + 16 * m + g + i % 2 * 8;
                    x[m][d][i] = query(q + r * width, r < s.rows, d * 16 + i / 2 * 8 + 2 * t, a.dim);
                }
#pragma unroll
            for (int d = 0; d < D / 8; d++)
#pragma unroll
                for (int i = 0; i < 4; i++) o[m][d][i] = 0.0f;
            top[m][0] = top[m][1] = -INFINITE;
            sum[m][0] = sum[m][1] = 0.0f;
        }
        for (int first = 0; first < a.keys; first += key_tile) {
            unsigned short* keys = tiles + first / key_tile % 2 * (2 * key_tile * pitch);
            unsigned short* values = keys + key_tile * pitch;
            const bool more = first + key_tile < a.keys;
            copy_wait<0>();
            if constexpr (narrow_input) {
                __syncthreads();  // the tile is there, and the other one is free
                unsigned short* next = tiles + (first / key_tile + 1) % 2 * (2 * key_tile * pitch);
                if (more) load<pitch>(next, next + key_tile * pitch, a, first + key_tile, part);
                copy_commit();
            } else {
                convert(keys, values, next_keys, next_values, part);
                if (more) load<D>(next_keys, next_values, a, first + key_tile, part);
                copy_commit();
                __syncthreads();  // the tile is there. The other one is free: nobody comes here before having read it.
            }
            if (warp_row >= s.rows) continue;
            const bool hidden = first + key_tile > a.limit(warp_row);  // from some row of the warp, some key

            float score[M][key_tile / 8][4] = {};
#pragma unroll
            for (int key = 0; key < key_tile; key += 16)
#pragma unroll
                for (int d = 0; d < D / 16; d++) {
                    unsigned b[4];  // 16 keys: the first 8, the two halves of the depth, then the others
                    ldmatrix_x4(b, keys + (key + lane / 16 * 8 + lane % 8) * pitch + d * 16 + lane / 8 % 2 * 8);
#pragma unroll
                    for (int m = 0; m < M; m++) {
                        mma_bf16(score[m][key / 8], x[m][d], b[0], b[1]);
                        mma_bf16(score[m][key / 8 + 1], x[m][d], b[2], b[3]);
                    }
                }
            if (hidden) {
#pragma unroll
                for (int m = 0; m < M; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        int limit = a.limit(warp_row + 16 * m + g + 8 * h) - first - 2 * t;
#pragma unroll
                        for (int j = 0; j < key_tile / 8; j++)
#pragma unroll
                            for (int i = 0; i < 2; i++)
                                if (8 * j + i >= limit) score[m][j][2 * h + i] = -INFINITE;
                    }
            }
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {  // rows g and g+8
                    float highest = top[m][h];
#pragma unroll
                    for (int j = 0; j < key_tile / 8; j++) highest = fmaxf(highest, fmaxf(score[m][j][2 * h], score[m][j][2 * h + 1]));
                    highest = fmaxf(highest, __shfl_xor_sync(FULL_WARP, highest, 1));
                    highest = fmaxf(highest, __shfl_xor_sync(FULL_WARP, highest, 2));
                    float shrink = power2((top[m][h] - highest) * a.scale), offset = -highest * a.scale;
                    top[m][h] = highest;
                    sum[m][h] *= shrink;
#pragma unroll
                    for (int d = 0; d < D / 8; d++) {
                        o[m][d][2 * h] *= shrink;
                        o[m][d][2 * h + 1] *= shrink;
                    }
#pragma unroll
                    for (int j = 0; j < key_tile / 8; j++)
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            float& v = score[m][j][2 * h + i];
                            v = power2(fmaf(v, a.scale, offset));
                            sum[m][h] += v;
                        }
                }
#pragma unroll
            for (int key = 0; key < key_tile; key += 16) {
                unsigned p[M][4];
#pragma unroll
                for (int m = 0; m < M; m++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const float(&v)[4] = score[m][key / 8 + i / 2];
                        p[m][i] = bf16_pair(v[i % 2 * 2], v[i % 2 * 2 + 1]);
                    }
#pragma unroll
                for (int d = 0; d < D / 16; d++) {
                    unsigned b[4];  // 16 dimensions: the first 8, the two halves of the keys, then the others
                    ldmatrix_x4_transposed(b, values + (key + lane % 16) * pitch + d * 16 + lane / 16 * 8);
#pragma unroll
                    for (int m = 0; m < M; m++) {
                        mma_bf16(o[m][2 * d], p[m], b[0], b[1]);
                        mma_bf16(o[m][2 * d + 1], p[m], b[2], b[3]);
                    }
                }
            }
        }
        if (warp_row >= s.rows) return;
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                int r = warp_row + 16 * m + g + 8 * h;
                sum[m][h] += __shfl_xor_sync(FULL_WARP, sum[m][h], 1);
                sum[m][h] += __shfl_xor_sync(FULL_WARP, sum[m][h], 2);
                float scale = __fdividef(1.0f, sum[m][h]);
#pragma unroll
                for (int d = 0; d < D / 8; d++) {
                    int column = d * 8 + 2 * t;
                    if (r >= s.rows || column >= a.dim) continue;
                    long long at = first_row + r * width + column;
                    float2 y = make_float2(o[m][d][2 * h] * scale, o[m][d][2 * h + 1] * scale);
                    if (dst) *reinterpret_cast<float2*>(dst + at) = y;
                    if (narrow) *reinterpret_cast<unsigned*>(narrow + at) = bf16_pair(y.x, y.y);
                }
            }
    }
};

#define TENSOR_ATTENTION(name, T, D, M, threads, blocks)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(threads, blocks)                                                                                           \
        name(const T* q, const T* k, const T* v, const Segment* segs, int heads, int dim, int length, int keys, int span, float scale, float* dst,          \
             unsigned short* narrow) {                                                                                                                      \
        Segment s = segs[blockIdx.x];                                                                                                                       \
        TensorAttention<D, M, T>::run(dst, narrow, q, Attended<T>(k, v, s, dim, length, keys, span, scale), s, heads);                                      \
    }                                                                                                                                                       \
    EXPORT(name)

TENSOR_ATTENTION(unmask_attention_tensor_32x1, float, 32, 1, 128, 4)
TENSOR_ATTENTION(unmask_attention_tensor_48x1, float, 48, 1, 128, 4)
TENSOR_ATTENTION(unmask_attention_tensor_64x1, float, 64, 1, 128, 3)
TENSOR_ATTENTION(unmask_attention_tensor_128x1, float, 128, 1, 256, 1)
TENSOR_ATTENTION(unmask_attention_tensor_32x2, float, 32, 2, 256, 1)
TENSOR_ATTENTION(unmask_attention_tensor_48x2, float, 48, 2, 256, 1)
TENSOR_ATTENTION(unmask_attention_tensor_64x2, float, 64, 2, 256, 1)
TENSOR_ATTENTION(unmask_attention_narrow_32, unsigned short, 32, 2, 256, 1)
TENSOR_ATTENTION(unmask_attention_narrow_48, unsigned short, 48, 2, 256, 1)
TENSOR_ATTENTION(unmask_attention_narrow_64, unsigned short, 64, 2, 256, 1)
