// LinearHeads: the product that makes queries, keys and values, which its epilogue takes apart as SplitHeads does. So the product is neither
// written as float32 nor read again. The bits are those of the two kernels: a number is finished, rotated and rounded by the same expressions.
//
// Rows are all positions of sequences 0, 1, ...: row r is position r%length of sequence r/length.
#include "gemm.cuh"

// Places is where a product's columns go: `heads` heads of dim numbers of queries, then as many of keys and of values.
struct Places {
    Heads q, k, v;
    const float *cos, *sin;  // [length, dim/2], or null
    int heads, dim, length;

    // store writes four numbers of a row from column `first` on; other are those half a head away.
    __device__ __forceinline__ void store(int row, int first, float4 y, float4 other) const {
        const int width = heads * dim, kind = first / width, column = first - kind * width;
        const int head = column / dim, i = column - head * dim, seq = row / length, pos = row - seq * length;
        if (cos && kind < 2) {
            const int half = dim / 2;
            const long long angle = ((long long)pos * half + (i < half ? i : i - half)) / 4;
            float4 co = reinterpret_cast<const float4*>(cos)[angle], si = reinterpret_cast<const float4*>(sin)[angle];
            if (i >= half) si = make_float4(-si.x, -si.y, -si.z, -si.w);
            y = make_float4(rotated(y.x, other.x, co.x, si.x), rotated(y.y, other.y, co.y, si.y), rotated(y.z, other.z, co.z, si.z),
                            rotated(y.w, other.w, co.w, si.w));
        }
        const long long at = kind == 0 ? (long long)row * width + column : (((long long)seq * heads + head) * length + pos) * dim + i;
        const Heads to = {kind == 0 ? q.wide : kind == 1 ? k.wide : v.wide, kind == 0 ? q.narrow : kind == 1 ? k.narrow : v.narrow};
        to.store(at / 4, y);
    }
};

// linear_heads computes a tile of the product. A warp's columns are whole heads, where there are angles.
template <class N, class T>
__device__ __forceinline__ void linear_heads(const Epilogue& e, const Places& places, const unsigned char* x, const unsigned char* w, int stride) {
    SHARED(shared);
    int i, j;
    place_tile((e.rows + T::rows - 1) / T::rows, (e.out + T::columns - 1) / T::columns, i, j);
    typename N::Sum sum[T::down16][T::across8][4] = {};
    multiply<N, T>(sum, x + (long long)i * T::rows * stride, w + (long long)j * T::columns * stride, stride, shared);

    const Strips<N, T> strips(shared);
    const int first_row = i * T::rows + T::first_row() + strips.row, first_column = j * T::columns + T::first_column();
    const int half = places.dim / 2, other = places.cos ? strips.column % places.dim < half ? strips.column + half : strips.column - half : strips.column;
    const Epilogue::Columns columns = e.columns(first_column + strips.column), others = e.columns(first_column + other);
#pragma unroll
    for (int m = 0; m < T::down16; m++) {
        strips.lay(sum[m]);
#pragma unroll 1
        for (int r = 0; r < strips.steps; r++) {
            const int row = first_row + 16 * m + r * strips.down;
            if (row >= e.rows || columns.n == 0) continue;
            const float4 y = e.scaled(row, columns, strips.four(r)), z = e.scaled(row, others, strips.four(r, other));
            e.write(row, columns, y);
            places.store(row, columns.first, y, z);
        }
    }
}

#define LINEAR_HEADS(name, N, T, blocks)                                                                                                       \
    extern "C" __global__ void __launch_bounds__(T::threads, blocks)                                                                           \
        name(const unsigned char* x, const unsigned char* w, const float* bias, const float* row_scale, const float* column_scale, int rows,   \
             int stride, int out, int pitch, int act, int add, float scale, float* dst, unsigned short* narrow, int heads, int dim, int length, \
             const float* cos, const float* sin, float* q, unsigned short* narrow_q, float* k, unsigned short* narrow_k, float* v,             \
             unsigned short* narrow_v) {                                                                                                       \
        const Places places = {{q, narrow_q}, {k, narrow_k}, {v, narrow_v}, cos, sin, heads, dim, length};                                     \
        linear_heads<N, T>(Epilogue{dst, bias, row_scale, column_scale, rows, out, pitch, Identity, 0, 1.0f, nullptr}, places, x, w, stride);  \
    }                                                                                                                                          \
    EXPORT(name)
LINEAR_HEADS(unmask_linear_heads_bf16_large, BF16, Large, 1)
LINEAR_HEADS(unmask_linear_heads_bf16_medium, BF16, Medium, 2)
#ifdef HOPPER
LINEAR_HEADS(unmask_linear_heads_bf16_wgmma256, BF16, Warpgroups256, 1)
LINEAR_HEADS(unmask_linear_heads_bf16_wgmma128, BF16, Warpgroups128, 2)
LINEAR_HEADS(unmask_linear_heads_bf16_wgmma64, BF16, Warpgroups64, 2)
#endif
