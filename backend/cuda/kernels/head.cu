// Reductions of tiles of logits, and of rows: HeadStats, and what HeadSample draws by.
#include "head.cuh"

namespace head {

__device__ __forceinline__ float sum16(const float (&v)[16]) {
    float s[4];
#pragma unroll
    for (int i = 0; i < 4; i++) s[i] = v[4 * i] + v[4 * i + 1] + (v[4 * i + 2] + v[4 * i + 3]);
    return s[0] + s[1] + (s[2] + s[3]);
}

// The eight lanes that share a row have a cell each. eight_sum and eight_max are over them.
__device__ __forceinline__ float eight_sum(float v) {
#pragma unroll
    for (int i = 1; i < cells; i *= 2) v += __shfl_xor_sync(FULL_WARP, v, i);
    return v;
}
__device__ __forceinline__ float eight_max(float v) {
#pragma unroll
    for (int i = 1; i < cells; i *= 2) v = fmaxf(v, __shfl_xor_sync(FULL_WARP, v, i));
    return v;
}

// Leaders are the two largest logits and the column of the largest; the lowest column stands among equals.
struct Leaders {
    float first = -INFINITE, second = -INFINITE;
    int arg = 0x7fffffff;

    __device__ __forceinline__ void add(float v, int column) {
        const bool more = v > first || v == first && column < arg;
        second = fmaxf(second, more ? first : v);
        first = more ? v : first;
        arg = more ? column : arg;
    }
    __device__ __forceinline__ void join() {
#pragma unroll
        for (int i = 1; i < cells; i *= 2) {
            float f = __shfl_xor_sync(FULL_WARP, first, i), s = __shfl_xor_sync(FULL_WARP, second, i);
            int a = __shfl_xor_sync(FULL_WARP, arg, i);
            add(f, a);
            second = fmaxf(second, s);
        }
    }
};

// A tile's logits in shared memory: rows of 128 and four more, so that rows begin in different banks.
constexpr int row_stride = tile + 4;
template <class T> constexpr int shared_bytes = T::rows * row_stride * 4 > T::shared ? T::rows * row_stride * 4 : T::shared;

// part_of is where a lane reads its ith four logits: not all lanes of a row at the same banks.
__device__ __forceinline__ int part_of(int i) { return (i + threadIdx.x % cells / 2) % 4 * 4; }

// reduce is what a block makes of its tile: a warp takes four rows at a time, eight lanes each.
template <int rows, int threads>
__device__ __forceinline__ void reduce(const Parts& p, const Logits& g, float power, int row, int count, int at, const float* logits) {
    const int c = threadIdx.x % cells, first = at * tile + c * cell;
    const bool whole = (at + 1) * tile <= g.classes;  // all columns are outcomes
    float bias[cell];
#pragma unroll
    for (int i = 0; i < cell; i++) {
        const int column = first + part_of(i / 4) + i % 4;
        bias[i] = g.bias && column < g.classes ? g.bias[column] : 0.0f;
    }
#pragma unroll 1
    for (int r = threadIdx.x / 32 * 4; r < rows && row + r < count; r += threads / 8) {
        const int own = r + threadIdx.x % 32 / cells;  // may be one beyond count, which takes part and writes nothing
        const bool real = row + own < count;
        const long long to = (long long)at * p.stride + row + own;
        const float row_scale = g.row_scale && real ? g.row_scale[row + own] : 1.0f;
        float l[cell], top = -INFINITE;
#pragma unroll
        for (int i = 0; i < cell; i += 4) {
            take(*(float(*)[4])(l + i), logits + own * row_stride + c * cell + part_of(i / 4));
#pragma unroll
            for (int j = i; j < i + 4; j++) {
                const int column = first + part_of(i / 4) + j % 4;
                const bool outcome = whole || column < g.classes;
                const float column_scale = g.column_scale && outcome ? g.column_scale[column] : 1.0f;
                l[j] = outcome ? g.of(l[j], row_scale, column_scale, bias[j]) : -INFINITE;
                top = fmaxf(top, l[j]);
            }
        }
        top = eight_max(top);
        const float shift = top == -INFINITE ? 0.0f : top;
        float e[cell];
#pragma unroll
        for (int i = 0; i < cell; i++) e[i] = expf(l[i] - shift);
        float sum = sum16(e), part = sum;
        sum = eight_sum(sum);
        if (p.dot) {
            float d[cell];
#pragma unroll
            for (int i = 0; i < cell; i++) d[i] = e[i] == 0.0f ? 0.0f : e[i] * (l[i] - shift);
            const float dot = eight_sum(sum16(d));
            if (c == 0 && real) p.dot[to] = dot;
        }
        if (p.moment) {
            if (power == 0.0f) {
#pragma unroll
                for (int i = 0; i < cell; i++) e[i] = possible(l[i]);
            } else {
#pragma unroll
                for (int i = 0; i < cell; i++) e[i] = expf(power * (l[i] - shift));
            }
            part = sum16(e);
            const float moment = eight_sum(part);
            if (c == 0 && real) p.moment[to] = moment;
        }
        if (p.cell && real) p.cell[((long long)at * cells + c) * p.stride + row + own] = part;
        if (p.second) {
            Leaders two;
#pragma unroll
            for (int i = 0; i < cell; i++) two.add(l[i], first + part_of(i / 4) + i % 4);
            two.join();
            if (c == 0 && real) {
                p.second[to] = two.second;
                p.arg[to] = two.arg;
            }
        }
        if (c == 0 && real) {
            p.top[to] = top;
            p.sum[to] = sum;
        }
    }
}

template <class N, class T>
__device__ __forceinline__ void parts(const Parts& p, const Logits& g, float power, const unsigned char* x, const unsigned char* w, int rows, int stride) {
    SHARED(shared);
    static_assert(T::columns % tile == 0 && tile % T::warp_columns == 0, "a block has whole tiles, a tile whole warps' parts");
    int i, j;
    place_tile((rows + T::rows - 1) / T::rows, (g.classes + T::columns - 1) / T::columns, i, j);
    typename N::Sum sum[T::down16][T::across8][4] = {};
    multiply<N, T>(sum, x + (long long)i * T::rows * stride, w + (long long)j * T::columns * stride, stride, shared);
    float* logits = (float*)shared;
    const int lane = threadIdx.x % 32;
    // One tile after another is laid out in shared memory, by those warps that have it, and reduced by all.
#pragma unroll 1
    for (int at = 0; at < T::columns / tile; at++) {
        if (T::first_column() / tile == at) {
#pragma unroll
            for (int m = 0; m < T::down16; m++)
#pragma unroll
                for (int n = 0; n < T::across8; n++) {
                    float* to = logits + (T::first_row() + 16 * m + lane / 4) * row_stride + T::first_column() % tile + 8 * n + lane % 4 * 2;
                    *(float2*)to = make_float2(sum[m][n][0], sum[m][n][1]);
                    *(float2*)(to + 8 * row_stride) = make_float2(sum[m][n][2], sum[m][n][3]);
                }
        }
        __syncthreads();
        if ((j * (T::columns / tile) + at) * tile < g.classes)
            reduce<T::rows, T::threads>(p, g, power, i * T::rows, rows, j * (T::columns / tile) + at, logits);
        if (T::columns > tile) __syncthreads();
    }
}

template <class T>
__device__ __forceinline__ void parts_plain(const Parts& p, const Logits& g, float power, const Strided& x, const Strided& w) {
    SHARED(shared);
    static_assert(T::columns == tile, "a block has whole tiles");
    int i, j;
    place_tile((x.rows + T::rows - 1) / T::rows, (g.classes + tile - 1) / tile, i, j);
    float sum[T::down][T::across][4][4] = {};
    multiply_plain<T>(sum, x, w, i * T::rows, j * tile, (float*)shared);
    float* logits = (float*)shared;
#pragma unroll
    for (int m = 0; m < T::down; m++)
#pragma unroll
        for (int a = 0; a < 4; a++)
#pragma unroll
            for (int n = 0; n < T::across; n++) *(float4*)(logits + (T::row(m) + a) * row_stride + T::column(n)) = four_of(sum[m][n][a]);
    __syncthreads();
    reduce<T::rows, T::threads>(p, g, power, i * T::rows, x.rows, j, logits);
}

}  // namespace head

// A block reduces a tile of logits of each of its rows.
#define HEAD_PARTS(name, N, T, blocks)                                                                                                             \
    extern "C" __global__ void __launch_bounds__(T::threads, blocks)                                                                               \
        name(PARTS, const unsigned char* x, const unsigned char* w, const float* bias, const float* row_scale, const float* column_scale, int rows, \
             int stride, int classes, float scale, float power) {                                                                                  \
        head::parts<N, T>(THE_PARTS, head::Logits{bias, row_scale, column_scale, classes, scale}, power, x, w, rows, stride);                      \
    }                                                                                                                                              \
    EXPORT(name)
using HeadHuge = Tile<128, 256, 64, 64, 64, 4>;  // reads the rows of x half as often from the cache
using HeadLarge = Tile<128, 128, 64, 64, 64, 4>;
using HeadSmall = Tile<32, 128, 32, 32, 128, 4>;
HEAD_PARTS(unmask_head_bf16_huge, BF16, HeadHuge, 1)
HEAD_PARTS(unmask_head_bf16_large, BF16, HeadLarge, 2)
HEAD_PARTS(unmask_head_bf16_small, BF16, HeadSmall, 2)
HEAD_PARTS(unmask_head_int8_huge, Int8, HeadHuge, 1)
HEAD_PARTS(unmask_head_int8_large, Int8, HeadLarge, 2)
HEAD_PARTS(unmask_head_int8_small, Int8, HeadSmall, 2)
#ifdef HOPPER
HEAD_PARTS(unmask_head_bf16_wgmma256, BF16, Warpgroups256, 1)
HEAD_PARTS(unmask_head_bf16_wgmma128, BF16, Warpgroups128, 2)
HEAD_PARTS(unmask_head_int8_wgmma256, Int8, Warpgroups256, 1)
HEAD_PARTS(unmask_head_int8_wgmma128, Int8, Warpgroups128, 2)
#endif

#define HEAD_PARTS_PLAIN(name, T)                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(T::threads, 2)                                                                                    \
        name(PARTS, const float* x, const float* w, const float* bias, int rows, int depth, int stride, int classes, float scale, float power) {   \
        head::parts_plain<T>(THE_PARTS, head::Logits{bias, nullptr, nullptr, classes, scale}, power, Strided{x, depth, 1, rows, depth},            \
                             Strided{w, stride, 1, classes, depth});                                                                               \
    }                                                                                                                                              \
    EXPORT(name)
using HeadPlainLarge = Plain<128, 128, 2, 2>;
using HeadPlainSmall = Plain<32, 128, 1, 2>;
HEAD_PARTS_PLAIN(unmask_head_f32_large, HeadPlainLarge)
HEAD_PARTS_PLAIN(unmask_head_f32_small, HeadPlainSmall)

// A warp finishes the reductions of a row. Results that are null are not wanted. A row without a distribution gets NaN and argument -1.
extern "C" __global__ void unmask_head_stats(PARTS, int rows, int tiles, double power, double* log_moment, double* entropy, double* p1, double* p2,
                                             double* log_sum, int* best) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    head::Total t = head::total(THE_PARTS, row, tiles, power);
    if (threadIdx.x % 32 != 0) return;
    double whole = t.log_sum(), log_of_sum = log(t.sum);
    bool none = !head::finite(whole);
    double nan = head::infinite() - head::infinite();
    if (log_moment) log_moment[row] = none ? nan : log(t.moment) - power * log_of_sum;
    if (entropy) entropy[row] = none ? nan : fmax(0.0, log_of_sum - t.dot / t.sum);
    if (p1) p1[row] = none ? nan : exp((double)t.top - whole);
    if (p2) p2[row] = none ? nan : exp((double)t.second - whole);
    if (log_sum) log_sum[row] = whole;
    if (best) best[row] = none ? -1 : t.arg;
}
EXPORT(unmask_head_stats)
