// Draws: from the parts of a row to a cell, and from its logits to the token.
#include "head.cuh"

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
        float logit = head::Logits{bias, row_scale, column_scale, classes, scale}.at((float)own, row, at * head::cell + lane % head::cell);           \
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
    float logit = head::Logits{bias, nullptr, nullptr, classes, scale}.at(sum, row, at * head::cell + lane);
    head::draw(logit, row, at, power, log_sum, unit, rest, token, log_p);
}
EXPORT(unmask_head_draw_f32)
