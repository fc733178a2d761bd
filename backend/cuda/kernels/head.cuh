// The output head: logits = scale*(x w^T + bias), reduced tile by tile where they are computed and never written out.
//
// A tile is 128 columns, a cell 16 of them. head.cu writes what a row's tile comes to and joins the tiles of a row in float64, in one order. To
// draw, head_draw.cu follows a row's uniform to a cell, whose 16 logits are then computed once more, bit for bit.
#pragma once

#include "gemm.cuh"

namespace head {

constexpr int tile = 128, cell = 16, cells = tile / cell;

// Logits says how logits follow from sums.
struct Logits {
    const float *bias, *row_scale, *column_scale;
    int classes;
    float scale;

    // of is the logit of a sum.
    __device__ __forceinline__ float of(float sum, float row_scale, float column_scale, float bias) const {
        return finished(sum, row_scale, column_scale, bias) * scale;
    }
    // at is that of a row's sum in a column; beyond the outcomes it is -Inf, which takes part in nothing.
    __device__ __forceinline__ float at(float sum, int row, int column) const {
        if (column >= classes) return -INFINITE;
        return of(sum, row_scale ? row_scale[row] : 1.0f, column_scale ? column_scale[column] : 1.0f, bias ? bias[column] : 0.0f);
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
__device__ __forceinline__ float possible(float logit) { return logit == -INFINITE ? 0.0f : logit == logit ? 1.0f : logit; }
__device__ __forceinline__ float weight(float logit, float top, float power) {
    return power == 0.0f ? possible(logit) : expf(power * (logit - top));
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
