// The output head: logits = scale*(x w^T + bias), reduced tile by tile where they are computed and never written out.
//
// A tile is 128 columns, a cell 16 of them. The first kernel writes what a row's tile comes to, the next join the tiles of a row in float64,
// in one order. To draw, a row's uniform leads to a cell, whose 16 logits are then computed once more, bit for bit.
#include "gemm.cuh"

namespace head {

constexpr int tile = 128, cell = 16, cells = tile / cell;

// Logits says how logits follow from sums.
struct Logits {
    const float *bias, *row_scale, *column_scale;
    int classes;
    float scale;

    // of is the logit of a column; beyond the outcomes it is -Inf, which takes part in nothing.
    __device__ __forceinline__ float of(float sum, int row, int column) const {
        if (column >= classes) return -INFINITE;
        return finished(sum, row_scale ? row_scale[row] : 1.0f, column_scale ? column_scale[column] : 1.0f, bias ? bias[column] : 0.0f) * scale;
    }
};

// Parts is what each tile of each row comes to, in arrays [tiles, stride] with rows side by side; those that are null are not wanted.
struct Parts {
    float *top, *sum, *moment, *dot, *second;  // the largest logit; sums of e = exp(l-top), exp(power*(l-top)) and e*(l-top); the second largest
    int* arg;                                  // column of the largest
    float* cell;                               // [tiles*cells, stride]: a cell's part of the moment, or of the sum without one
    int stride;
};

// weight is p^power up to a factor. What is impossible has none, not even for power 0.
__device__ __forceinline__ float weight(float logit, float top, float power) {
    if (logit == -INFINITE) return 0.0f;
    return power == 0.0f && logit == logit ? 1.0f : expf(power * (logit - top));
}

// reduce is for a warp: the logits of one row of a tile, four a lane.
__device__ __forceinline__ void reduce(const Parts& p, float power, int row, int at, float4 four) {
    const int lane = threadIdx.x % 32;
    const float l[4] = {four.x, four.y, four.z, four.w};
    const long long to = (long long)at * p.stride + row;
    float top = warp_max(fmaxf(fmaxf(l[0], l[1]), fmaxf(l[2], l[3])));
    float e[4], sum, moment;
#pragma unroll
    for (int i = 0; i < 4; i++) e[i] = weight(l[i], top, 1.0f);
    sum = e[0] + e[1] + (e[2] + e[3]);
    moment = sum;
    if (p.moment) {
        float m[4];
#pragma unroll
        for (int i = 0; i < 4; i++) m[i] = weight(l[i], top, power);
        moment = m[0] + m[1] + (m[2] + m[3]);
    }
    if (p.cell) {
        float part = moment + __shfl_xor_sync(FULL_WARP, moment, 1);
        part += __shfl_xor_sync(FULL_WARP, part, 2);
        if (lane % 4 == 0) p.cell[((long long)at * cells + lane / 4) * p.stride + row] = part;
    }
    sum = warp_sum(sum);
    if (p.moment) moment = warp_sum(moment);
    if (lane == 0) {
        p.top[to] = top;
        p.sum[to] = sum;
        if (p.moment) p.moment[to] = moment;
    }
    if (p.dot) {
        float d[4];
#pragma unroll
        for (int i = 0; i < 4; i++) d[i] = e[i] == 0.0f ? 0.0f : e[i] * (l[i] - top);
        float dot = warp_sum(d[0] + d[1] + (d[2] + d[3]));
        if (lane == 0) p.dot[to] = dot;
    }
    if (p.second) {
        float first = l[0], second = -INFINITE;
        int arg = 0;
#pragma unroll
        for (int i = 1; i < 4; i++) {
            if (l[i] > first) second = first, first = l[i], arg = i;
            else if (l[i] > second) second = l[i];
        }
        arg += lane * 4;
#pragma unroll
        for (int i = 1; i < 32; i *= 2) {
            float f = __shfl_xor_sync(FULL_WARP, first, i), s = __shfl_xor_sync(FULL_WARP, second, i);
            int a = __shfl_xor_sync(FULL_WARP, arg, i);
            if (f > first || f == first && a < arg) second = fmaxf(first, s), first = f, arg = a;
            else second = fmaxf(second, f);
        }
        if (lane == 0) {
            p.second[to] = second;
            p.arg[to] = at * tile + arg;
        }
    }
}

// A tile's logits in shared memory: rows of 128 and four more, so that rows begin in different banks.
constexpr int row_stride = tile + 4;
template <class T> constexpr int shared_bytes = T::rows * row_stride * 4 > T::shared ? T::rows * row_stride * 4 : T::shared;

template <int rows, int threads>
__device__ __forceinline__ void reduce_all(const Parts& p, const Logits& g, float power, int row, int count, int at, const float* logits) {
    for (int r = threadIdx.x / 32; r < rows && row + r < count; r += threads / 32) {
        int c = threadIdx.x % 32 * 4;
        float4 v = *(const float4*)(logits + r * row_stride + c);
        c += at * tile;
        reduce(p, power, row + r, at, make_float4(g.of(v.x, row + r, c), g.of(v.y, row + r, c + 1), g.of(v.z, row + r, c + 2), g.of(v.w, row + r, c + 3)));
    }
}

template <class N, class T>
__device__ __forceinline__ void parts(const Parts& p, const Logits& g, float power, const unsigned char* x, const unsigned char* w, int rows, int stride) {
    SHARED(shared);
    static_assert(T::columns == tile, "a block has whole tiles");
    int i, j;
    place_tile((rows + T::rows - 1) / T::rows, (g.classes + tile - 1) / tile, i, j);
    typename N::Sum sum[T::down16][T::across8][4] = {};
    multiply<N, T>(sum, x + (long long)i * T::rows * stride, w + (long long)j * tile * stride, stride, shared);
    float* logits = (float*)shared;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < T::down16; m++)
#pragma unroll
        for (int n = 0; n < T::across8; n++) {
            float* at = logits + (T::first_row() + 16 * m + lane / 4) * row_stride + T::first_column() + 8 * n + lane % 4 * 2;
            *(float2*)at = make_float2(sum[m][n][0], sum[m][n][1]);
            *(float2*)(at + 8 * row_stride) = make_float2(sum[m][n][2], sum[m][n][3]);
        }
    __syncthreads();
    reduce_all<T::rows, T::threads>(p, g, power, i * T::rows, rows, j, logits);
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
    reduce_all<T::rows, T::threads>(p, g, power, i * T::rows, x.rows, j, logits);
}

// ---- the tiles of a row, for a warp ----

__device__ __forceinline__ double infinite() { return (double)INFINITE; }

__device__ __forceinline__ bool finite(double v) { return v - v == 0; }

// Total is what tiles of a row come to, in units of their largest logit.
struct Total {
    float top, second;
    int arg;
    double sum, moment, dot;

    __device__ __forceinline__ void shift(float to, double power) {
        if (top != -INFINITE) {
            double d = (double)top - (double)to, f = exp(d);
            dot = f * (dot + d * sum);
            sum *= f;
            moment *= exp(power * d);
        }
        top = to;
    }
    // join adds others. The lowest column stands among equals.
    __device__ __forceinline__ void join(Total o, double power) {
        if (o.top > top || o.top == top && o.arg < arg) {
            second = fmaxf(top, o.second);
            arg = o.arg;
        } else {
            second = fmaxf(second, o.top);
        }
        if (o.top > top) shift(o.top, power);
        else if (o.top < top) o.shift(top, power);
        sum += o.sum;
        moment += o.moment;
        dot += o.dot;
    }
    __device__ __forceinline__ Total of_lane(int bits) const {
        Total o;
        o.top = __shfl_xor_sync(FULL_WARP, top, bits);
        o.second = __shfl_xor_sync(FULL_WARP, second, bits);
        o.arg = __shfl_xor_sync(FULL_WARP, arg, bits);
        o.sum = __shfl_xor_sync(FULL_WARP, sum, bits);
        o.moment = __shfl_xor_sync(FULL_WARP, moment, bits);
        o.dot = __shfl_xor_sync(FULL_WARP, dot, bits);
        return o;
    }
    __device__ __forceinline__ double log_sum() const { return (double)top + log(sum); }
};

// total joins all tiles of a row; all lanes get it. Without a moment that is the sum.
__device__ __forceinline__ Total total(const Parts& p, int row, int tiles, double power) {
    Total t = {-INFINITE, -INFINITE, 0x7fffffff, 0, 0, 0};
    for (int i = threadIdx.x % 32; i < tiles; i += 32) {
        long long at = (long long)i * p.stride + row;
        double sum = p.sum[at];
        t.join({p.top[at], p.second ? p.second[at] : -INFINITE, p.arg ? p.arg[at] : 0x7fffffff, sum, p.moment ? (double)p.moment[at] : sum,
                p.dot ? (double)p.dot[at] : 0}, power);
    }
#pragma unroll
    for (int i = 1; i < 32; i *= 2) t.join(t.of_lane(i), power);
    return t;
}

}  // namespace head

#define PARTS float *top, float *sum, float *moment, float *dot, float *second, int *arg, float *cell, int part_stride
#define THE_PARTS (head::Parts{top, sum, moment, dot, second, arg, cell, part_stride})

// A block reduces a tile of logits of each of its rows.
#define HEAD_PARTS(name, N, T, blocks)                                                                                                             \
    extern "C" __global__ void __launch_bounds__(T::threads, blocks)                                                                               \
        name(PARTS, const unsigned char* x, const unsigned char* w, const float* bias, const float* row_scale, const float* column_scale, int rows, \
             int stride, int classes, float scale, float power) {                                                                                  \
        head::parts<N, T>(THE_PARTS, head::Logits{bias, row_scale, column_scale, classes, scale}, power, x, w, rows, stride);                      \
    }                                                                                                                                              \
    EXPORT(name)
using HeadLarge = Tile<128, 128, 64, 64, 64, 4>;
using HeadSmall = Tile<32, 128, 32, 32, 128, 4>;
HEAD_PARTS(unmask_head_bf16_large, BF16, HeadLarge, 2)
HEAD_PARTS(unmask_head_bf16_small, BF16, HeadSmall, 2)
HEAD_PARTS(unmask_head_int8_large, Int8, HeadLarge, 2)
HEAD_PARTS(unmask_head_int8_small, Int8, HeadSmall, 2)

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

// A warp finds the cell that a row's uniform leads to, -1 where there is no distribution, and what is left of the uniform in it, in units of the
// tile's largest logit. Where rounding leaves some at the end, the last cell with any weight stands.
extern "C" __global__ void unmask_head_pick(PARTS, int rows, int tiles, double power, const double* uniform, double* log_sum, int* picked, float* unit,
                                            double* rest) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    head::Parts p = THE_PARTS;
    head::Total t = head::total(p, row, tiles, power);
    double whole = t.log_sum();
    if (!head::finite(whole)) {
        if (lane == 0) picked[row] = -1;
        return;
    }
    const float* each = moment ? moment : sum;
    auto factor = [&](int i) { return exp(power * ((double)top[(long long)i * part_stride + row] - (double)t.top)); };
    auto weight = [&](int i) {
        float m = each[(long long)i * part_stride + row];
        return m == 0.0f ? 0.0 : m * factor(i);
    };
    // Each lane has as many tiles, side by side. The first whose end lies beyond the target is the one.
    int share = (tiles + 31) / 32, first = min(lane * share, tiles), last = min(first + share, tiles);
    double mine = 0;
    for (int i = first; i < last; i++) mine += weight(i);
    double end = mine;
#pragma unroll
    for (int i = 1; i < 32; i *= 2) {
        double before = __shfl_up_sync(FULL_WARP, end, i);
        if (lane >= i) end += before;
    }
    double begin = __shfl_up_sync(FULL_WARP, end, 1);
    if (lane == 0) begin = 0;
    double target = uniform[row] * __shfl_sync(FULL_WARP, end, 31);
    unsigned beyond = __ballot_sync(FULL_WARP, mine > 0 && end > target), any = __ballot_sync(FULL_WARP, mine > 0);
    if (lane != (beyond ? __ffs(beyond) - 1 : 31 - __clz(any))) return;
    int at = -1;
    double left = 0, left_there = 0;
    for (int i = first; i < last; i++) {
        double w = weight(i);
        if (w == 0) continue;
        at = i;
        left = fmin(fmax(target - begin, 0.0), w);
        if (begin + w > target) break;
        begin += w;
    }
    left /= factor(at);
    int found = -1;
    for (int i = at * head::cells; i < (at + 1) * head::cells; i++) {
        double w = cell[(long long)i * part_stride + row];
        if (w == 0) continue;
        found = i;
        left_there = fmin(left, w);
        if (w > left) break;
        left -= w;
    }
    picked[row] = found;
    unit[row] = top[(long long)at * part_stride + row];
    rest[row] = left_there;
    log_sum[row] = whole;
}
EXPORT(unmask_head_pick)

namespace head {

// draw is for a warp, whose lanes below 16 have a logit of the cell each. The token is the first whose sum of weights exceeds what was left
// of the uniform; where rounding leaves some, the last that has any weight.
__device__ __forceinline__ void draw(float logit, int row, int cell_at, float power, const double* log_sum, const float* unit, const double* rest,
                                     int* token, double* log_p) {
    const int lane = threadIdx.x % 32;
    float w = lane < cell ? weight(logit, unit[row], power) : 0.0f;
    double sum = 0, left = rest[row];
    int found = 0;
    bool done = false;
#pragma unroll
    for (int i = 0; i < cell; i++) {
        float v = __shfl_sync(FULL_WARP, w, i);
        if (v == 0.0f || done) continue;
        found = i;
        sum += v;
        done = sum > left;
    }
    float drawn = __shfl_sync(FULL_WARP, logit, found);
    if (lane == 0) {
        token[row] = cell_at * cell + found;
        log_p[row] = (double)drawn - log_sum[row];
    }
}

__device__ __forceinline__ void draw_nothing(int row, int* token, double* log_p) {
    if (threadIdx.x % 32 != 0) return;
    token[row] = -1;
    log_p[row] = infinite() - infinite();
}

}  // namespace head

#define DRAWN int rows, int classes, float scale, float power, const double *log_sum, const int *picked, const float *unit, const double *rest, int *token, double *log_p

// A warp draws a row's token from its cell.
#define HEAD_DRAW(name, N)                                                                                                                            \
    extern "C" __global__ void name(const unsigned char* x, const unsigned char* w, const float* bias, const float* row_scale, const float* column_scale, \
                                    int stride, DRAWN) {                                                                                              \
        int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;                                                         \
        if (row >= rows) return;                                                                                                                      \
        int at = picked[row];                                                                                                                         \
        if (at < 0) return head::draw_nothing(row, token, log_p);                                                                                     \
        N::Sum sum[4];                                                                                                                                \
        multiply_row<N>(sum, x + (long long)row * stride, w + (long long)at * head::cell * stride, stride);                                           \
        N::Sum own = 0; /* number i is sum[i%2 + i/8*2] of lane i%8/2 */                                                                              \
        for (int i = 0; i < 4; i++) {                                                                                                                 \
            N::Sum v = __shfl_sync(FULL_WARP, sum[i], lane % 8 / 2);                                                                                  \
            if (i == lane % 2 + lane / 8 * 2) own = v;                                                                                                \
        }                                                                                                                                             \
        float logit = head::Logits{bias, row_scale, column_scale, classes, scale}.of((float)own, row, at * head::cell + lane % head::cell);           \
        head::draw(logit, row, at, power, log_sum, unit, rest, token, log_p);                                                                         \
    }                                                                                                                                                 \
    EXPORT(name)
HEAD_DRAW(unmask_head_draw_bf16, BF16)
HEAD_DRAW(unmask_head_draw_int8, Int8)

extern "C" __global__ void unmask_head_draw_f32(const float* x, const float* w, const float* bias, int depth, int stride, DRAWN) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % head::cell;
    if (row >= rows) return;
    int at = picked[row];
    if (at < 0) return head::draw_nothing(row, token, log_p);
    const float *a = x + (long long)row * depth, *b = w + ((long long)at * head::cell + lane) * stride;
    float sum = 0.0f;
#pragma unroll 8
    for (int k = 0; k < depth; k++) sum = fmaf(a[k], b[k], sum);
    float logit = head::Logits{bias, nullptr, nullptr, classes, scale}.of(sum, row, at * head::cell + lane);
    head::draw(logit, row, at, power, log_sum, unit, rest, token, log_p);
}
EXPORT(unmask_head_draw_f32)
