// Linear: products with an epilogue, the rounding of activations before them, and gorgonia's matrix product.
#include "gemm.cuh"

// ---- activations to the precision of the weights. Rows become `padded` bytes long, with zeros at the end ----

// four reads numbers k..k+3 of a row, 0 beyond its width.
__device__ __forceinline__ float4 four(const float* row, int k, int width) {
    if (k + 4 <= width && (size_t)(row + k) % 16 == 0) return *(const float4*)(row + k);
    return make_float4(k < width ? row[k] : 0.0f, k + 1 < width ? row[k + 1] : 0.0f, k + 2 < width ? row[k + 2] : 0.0f, k + 3 < width ? row[k + 3] : 0.0f);
}

// A thread rounds eight numbers of a row to bfloat16.
extern "C" __global__ void unmask_bf16_rows(unsigned char* to, const float* x, int rows, int width, int padded) {
    int each = padded / 16;
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (long long)rows * each) return;
    const float* row = x + at / each * width;
    int k = int(at % each) * 8;
    float4 a = four(row, k, width), b = four(row, k + 4, width);
    *(uint4*)(to + at * 16) = make_uint4(bf16_pair(a.x, a.y), bf16_pair(a.z, a.w), bf16_pair(b.x, b.y), bf16_pair(b.z, b.w));
}
EXPORT(unmask_bf16_rows)

// A warp brings a row to -127..127 times scale = max|x|/127.
extern "C" __global__ void unmask_int8_rows(unsigned char* to, float* scale, const float* x, int rows, int width, int padded) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += (long long)row * width;
    to += (long long)row * padded;
    float top = 0.0f;
    for (int k = lane * 4; k < width; k += 128) {
        float4 v = four(x, k, width);
        top = fmaxf(fmaxf(fmaxf(top, fabsf(v.x)), fmaxf(fabsf(v.y), fabsf(v.z))), fabsf(v.w));
    }
    top = warp_max(top);
    float inverse = top == 0.0f ? 0.0f : 127.0f / top;
    for (int k = lane * 4; k < padded; k += 128) {
        float4 v = four(x, k, width);
        unsigned q = __float2int_rn(v.x * inverse) & 0xff;
        q |= (__float2int_rn(v.y * inverse) & 0xff) << 8;
        q |= (__float2int_rn(v.z * inverse) & 0xff) << 16;
        q |= (unsigned)(__float2int_rn(v.w * inverse) & 0xff) << 24;
        *(unsigned*)(to + k) = q;
    }
    if (lane == 0) scale[row] = top / 127.0f;
}
EXPORT(unmask_int8_rows)

// ---- dst = epilogue(x w^T) ----

// Epilogue is what is done to a product: dst = act(product + bias) * scale, or dst += that. Rows of dst are pitch numbers apart. narrow gets
// the same in bfloat16; it may be null, or dst.
struct Epilogue {
    float* dst;
    const float *bias, *row_scale, *column_scale;
    int rows, out, pitch, act, add;
    float scale;
    unsigned short* narrow = nullptr;

    // Columns are what up to four columns share over all rows.
    struct Columns {
        int first, n;
        bool whole;  // all four can be read and written at once
        float4 bias, scale;
    };
    __device__ __forceinline__ Columns columns(int first) const {
        const bool whole = out % 4 == 0 && pitch % 4 == 0 && (size_t)dst % 16 == 0;
        return {first, max(0, min(4, out - first)), whole, four_at(bias, first, 0.0f), four_at(column_scale, first, 1.0f)};
    }
    __device__ __forceinline__ float4 four_at(const float* p, int i, float otherwise) const {
        if (!p || i >= out) return make_float4(otherwise, otherwise, otherwise, otherwise);
        return make_float4(p[i], p[min(i + 1, out - 1)], p[min(i + 2, out - 1)], p[min(i + 3, out - 1)]);
    }

    // scaled is the product with its scales and bias, finish also with the activation and the factor behind it.
    __device__ __forceinline__ float4 scaled(int row, const Columns& c, float4 sum) const {
        const float x = row_scale ? row_scale[row] : 1.0f;
        return make_float4(finished(sum.x, x, c.scale.x, c.bias.x), finished(sum.y, x, c.scale.y, c.bias.y), finished(sum.z, x, c.scale.z, c.bias.z),
                           finished(sum.w, x, c.scale.w, c.bias.w));
    }
    __device__ __forceinline__ float4 finish(int row, const Columns& c, float4 sum) const {
        float4 y = activate(scaled(row, c, sum), act);
        if (scale != 1.0f) y = make_float4(y.x * scale, y.y * scale, y.z * scale, y.w * scale);
        return y;
    }

    __device__ __forceinline__ void write(int row, const Columns& c, float4 y) const {
        const long long at = (long long)row * pitch + c.first;
        if (dst) *(float4*)(dst + at) = y;
        if (narrow) *(uint2*)(narrow + at) = make_uint2(bf16_pair(y.x, y.y), bf16_pair(y.z, y.w));
    }

    // store finishes numbers of a row and writes them.
    __device__ __forceinline__ void store(int row, const Columns& c, float4 sum) const {
        if (row >= rows || c.n == 0) return;
        float4 y = finish(row, c, sum);
        float* to = dst + (long long)row * pitch + c.first;
        if (c.whole) {
            if (add) {
                float4 old = *(const float4*)to;
                y = make_float4(old.x + y.x, old.y + y.y, old.z + y.z, old.w + y.w);
            }
            return write(row, c, y);
        }
        to[0] = add ? to[0] + y.x : y.x;
        if (c.n > 1) to[1] = add ? to[1] + y.y : y.y;
        if (c.n > 2) to[2] = add ? to[2] + y.z : y.z;
        if (c.n > 3) to[3] = add ? to[3] + y.w : y.w;
    }
};

// Strips hands a warp's part of a product over in strips of 16 rows: laid out in shared memory, where a lane finds whole rows.
template <class N, class T>
struct Strips {
    static constexpr int width = T::warp_columns + 8;  // rows 8 numbers further in the banks: no two lanes that write a pair are in one bank
    static constexpr int each = T::warp_columns / 4, down = 32 / each, steps = 16 / down;  // lanes of a row, rows at a time, and how often
    static_assert(T::threads / 32 * 16 * width * 4 <= T::shared, "16 rows a warp in shared memory");
    float* part;      // the warp's
    int row, column;  // of the lane's first four numbers in a strip

    __device__ __forceinline__ explicit Strips(unsigned char* shared)
        : part((float*)shared + threadIdx.x / 32 * 16 * width), row(int(threadIdx.x % 32) / each), column(int(threadIdx.x % 32) % each * 4) {}

    // lay lays strip m out, whose sums a lane has as the instruction leaves them. The warp is together before it and after.
    __device__ __forceinline__ void lay(const typename N::Sum (&sum)[T::across8][4]) const {
        const int lane = threadIdx.x % 32;
        float* at = part + lane / 4 * width + lane % 4 * 2;
        __syncwarp();
#pragma unroll
        for (int n = 0; n < T::across8; n++) {
            *(float2*)(at + 8 * n) = make_float2(sum[n][0], sum[n][1]);
            *(float2*)(at + 8 * width + 8 * n) = make_float2(sum[n][2], sum[n][3]);
        }
        __syncwarp();
    }
    // four are the lane's numbers of step i, or those of another column of the same row.
    __device__ __forceinline__ float4 four(int i) const { return four(i, column); }
    __device__ __forceinline__ float4 four(int i, int column) const { return *(const float4*)(part + (row + i * down) * width + column); }
};

// linear computes a tile of dst; x_from makes the tile's rows of x from the number of the first.
template <class N, class T, class XFrom>
__device__ __forceinline__ void linear(const Epilogue& e, XFrom x_from, const unsigned char* w, int stride) {
    SHARED(shared);
    int i, j;
    place_tile((e.rows + T::rows - 1) / T::rows, (e.out + T::columns - 1) / T::columns, i, j);
    typename N::Sum sum[T::down16][T::across8][4] = {};
    auto x = x_from(i * T::rows);
    multiply<N, T>(sum, x, w + (long long)j * T::columns * stride, stride, shared);

    const Strips<N, T> strips(shared);
    const int first_row = i * T::rows + T::first_row() + strips.row;
    const Epilogue::Columns columns = e.columns(j * T::columns + T::first_column() + strips.column);
    // What a product is added to is read eight rows at once, the first before the strip is laid out, not number by number.
    constexpr int some = Strips<N, T>::steps < 8 ? Strips<N, T>::steps : 8;
    const bool ahead = e.add && e.act == Identity && e.scale == 1.0f && !e.narrow && columns.whole && columns.n > 0;
    float* to = e.dst + (long long)first_row * e.pitch + columns.first;
    const int step = strips.down * e.pitch;
#pragma unroll
    for (int m = 0; m < T::down16; m++, to += 16 * e.pitch) {
        const int left = (e.rows - first_row - 16 * m + strips.down - 1) / strips.down;  // of the lane's rows in this strip and below
        float4 old[some];
        auto fetch = [&](int first) {
#pragma unroll
            for (int r = 0; r < some; r++)
                if (first + r < left) old[r] = *(const float4*)(to + (first + r) * step);
        };
        if (ahead) fetch(0);
        strips.lay(sum[m]);
        if (ahead) {
#pragma unroll
            for (int first = 0; first < strips.steps; first += some) {
                if (first > 0) fetch(first);
#pragma unroll
                for (int r = first; r < first + some; r++) {
                    if (r >= left) break;
                    const float4 y = e.scaled(first_row + 16 * m + r * strips.down, columns, strips.four(r)), o = old[r - first];
                    *(float4*)(to + r * step) = make_float4(o.x + y.x, o.y + y.y, o.z + y.z, o.w + y.w);
                }
            }
        } else {
#pragma unroll 1
            for (int r = 0; r < strips.steps; r++) e.store(first_row + 16 * m + r * strips.down, columns, strips.four(r));
        }
    }
}

template <class T, class X>
__device__ __forceinline__ void linear_plain(const Epilogue& e, const X& x, const Strided& w) {
    SHARED(shared);
    int i, j;
    place_tile((e.rows + T::rows - 1) / T::rows, (e.out + T::columns - 1) / T::columns, i, j);
    float sum[T::down][T::across][4][4] = {};
    multiply_plain<T>(sum, x, w, i * T::rows, j * T::columns, (float*)shared);

    // Each thread lays its sums by in shared memory, so that one copy of the epilogue's code does for four rows.
    float4* own = (float4*)shared + threadIdx.x;
    static_assert(4 * T::threads * 16 <= T::shared, "four rows a thread in shared memory");
#pragma unroll
    for (int n = 0; n < T::across; n++) {
        const Epilogue::Columns columns = e.columns(j * T::columns + T::column(n));
#pragma unroll
        for (int m = 0; m < T::down; m++) {
#pragma unroll
            for (int p = 0; p < 4; p++) own[p * T::threads] = four_of(sum[m][n][p]);
#pragma unroll 1
            for (int p = 0; p < 4; p++) e.store(i * T::rows + T::row(m) + p, columns, own[p * T::threads]);
        }
    }
}

// The tiles, from that of most work a byte to that of most blocks. All fit in the 99 KB of shared memory that every GPU has. A warp of 64 x 64
// reads 128 bytes of shared memory an instruction, one of 64 x 32 would read 192: 1.5 times the time that the instruction takes (reckoned, not measured).
using Large = Tile<128, 256, 64, 64, 64, 4>;
using Medium = Tile<128, 128, 64, 64, 64, 4>;
using Small = Tile<64, 64, 32, 32, 128, 4>;
using Tiny = Tile<32, 32, 16, 16, 128, 8>;
using PlainLarge = Plain<128, 128, 2, 2>;
using PlainSmall = Plain<64, 64, 1, 2>;
using PlainTiny = Plain<32, 32, 1, 1>;

#define LINEAR(name, N, T, blocks)                                                                                                             \
    extern "C" __global__ void __launch_bounds__(T::threads, blocks)                                                                           \
        name(const unsigned char* x, const unsigned char* w, const float* bias, const float* row_scale, const float* column_scale, int rows,   \
             int stride, int out, int pitch, int act, int add, float scale, float* dst, unsigned short* narrow) {                              \
        auto x_from = [&](int row) { return Packed<T, T::rows>{x + (long long)row * stride, stride}; };                                        \
        linear<N, T>(Epilogue{dst, bias, row_scale, column_scale, rows, out, pitch, act, add, scale, narrow}, x_from, w, stride);              \
    }                                                                                                                                          \
    EXPORT(name)
LINEAR(unmask_linear_bf16_large, BF16, Large, 1)
LINEAR(unmask_linear_bf16_medium, BF16, Medium, 2)
LINEAR(unmask_linear_bf16_small, BF16, Small, 2)
LINEAR(unmask_linear_bf16_tiny, BF16, Tiny, 2)
LINEAR(unmask_linear_int8_large, Int8, Large, 1)
LINEAR(unmask_linear_int8_medium, Int8, Medium, 2)
LINEAR(unmask_linear_int8_small, Int8, Small, 2)
LINEAR(unmask_linear_int8_tiny, Int8, Tiny, 2)
#ifdef HOPPER
using Warpgroups256 = Warpgroups<4, 4>;
using Warpgroups128 = Warpgroups<2, 3>;
using Warpgroups64 = Warpgroups<1, 4>;
LINEAR(unmask_linear_bf16_wgmma256, BF16, Warpgroups256, 1)
LINEAR(unmask_linear_bf16_wgmma128, BF16, Warpgroups128, 2)
LINEAR(unmask_linear_bf16_wgmma64, BF16, Warpgroups64, 2)
LINEAR(unmask_linear_int8_wgmma256, Int8, Warpgroups256, 1)
LINEAR(unmask_linear_int8_wgmma128, Int8, Warpgroups128, 2)
LINEAR(unmask_linear_int8_wgmma64, Int8, Warpgroups64, 2)
#endif

#define LINEAR_PLAIN(name, T)                                                                                                                \
    extern "C" __global__ void __launch_bounds__(T::threads, 2)                                                                              \
        name(const float* x, const float* w, const float* bias, int rows, int depth, int stride, int out, int pitch, int act, int add,       \
             float scale, float* dst, unsigned short* narrow) {                                                                              \
        linear_plain<T>(Epilogue{dst, bias, nullptr, nullptr, rows, out, pitch, act, add, scale, narrow}, Strided{x, depth, 1, rows, depth}, \
                        Strided{w, stride, 1, out, depth});                                                                                  \
    }                                                                                                                                        \
    EXPORT(name)
LINEAR_PLAIN(unmask_linear_f32_large, PlainLarge)
LINEAR_PLAIN(unmask_linear_f32_small, PlainSmall)
LINEAR_PLAIN(unmask_linear_f32_tiny, PlainTiny)

// dst [rows, out] = x y with strides, for matrices that may be transposed: number (i, k) of x is x[i*down + k*right], (k, j) of y is y[k*y_down + j*y_right].
extern "C" __global__ void __launch_bounds__(PlainSmall::threads, 2)
    unmask_matmul(float* dst, const float* x, const float* y, int rows, int depth, int out, int x_down, int x_right, int y_down, int y_right) {
    linear_plain<PlainSmall>(Epilogue{dst, nullptr, nullptr, nullptr, rows, out, out, Identity, 0, 1.0f}, Strided{x, x_down, x_right, rows, depth},
                             Strided{y, y_right, y_down, out, depth});
}
EXPORT(unmask_matmul)
