// Products x w^T of rows: the parts of a product that a block of threads computes, shared by Linear, Conv and the output head.
//
// Weights are [out, in] row by row, rows padded with zeros to a multiple of 128 bytes and of rows of the largest tile. The sum of a number runs
// over the depth in one order, from the first to the last, for all tiles of a precision: so a tile is chosen by speed alone.
#pragma once

#include "common.cuh"

// ---- bfloat16 and int8: tensor cores. Both count in bytes, as their fragments are alike ----

struct BF16 {
    using Sum = float;
    static __device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { mma_bf16(d, a, b0, b1); }
#ifdef HOPPER
    static __device__ __forceinline__ void wgmma(float (&d)[16][4], Descriptor a, Descriptor b) { wgmma_bf16(d, a, b); }
#endif
};

struct Int8 {
    using Sum = int;
    static __device__ __forceinline__ void mma(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { mma_s8(d, a, b0, b1); }
#ifdef HOPPER
    static __device__ __forceinline__ void wgmma(int (&d)[16][4], Descriptor a, Descriptor b) { wgmma_s8(d, a, b); }
#endif
};

// Tile is rows x columns numbers of a product. Each warp has a part of them; `depth` bytes of the factors' rows are in shared memory for
// each of the stages that are under way.
template <int rows_, int columns_, int warp_rows_, int warp_columns_, int depth_, int stages_>
struct Tile {
    static constexpr int rows = rows_, columns = columns_, warp_rows = warp_rows_, warp_columns = warp_columns_;
    static constexpr int depth = depth_, stages = stages_;
    static constexpr int across = columns / warp_columns;
    static constexpr int threads = rows / warp_rows * across * 32;
    static constexpr int down16 = warp_rows / 16, across8 = warp_columns / 8;  // of a warp's part, in units of the instruction
    static constexpr int stage = (rows + columns) * depth;
    static constexpr int shared = stage * stages;
    static constexpr bool warpgroups = false;

    static __device__ __forceinline__ int first_row() { return int(threadIdx.x / 32) / across * warp_rows; }
    static __device__ __forceinline__ int first_column() { return int(threadIdx.x / 32) % across * warp_columns; }
};

// Warpgroups is a tile of Hopper's instructions: groups of four warps with 64 rows x 128 columns each, of which a warp has 16 rows.
template <int groups, int stages_>
struct Warpgroups {
    static constexpr int rows = 64 * groups, columns = 128, warp_columns = columns, threads = 128 * groups;
    static constexpr int down16 = 1, across8 = columns / 8;
    static constexpr int depth = 128, stages = stages_, stage = (rows + columns) * depth, shared = stage * stages;
    static constexpr bool warpgroups = true;

    static __device__ __forceinline__ int first_row() { return int(threadIdx.x / 32) * 16; }
    static __device__ __forceinline__ int first_column() { return 0; }
};

// swizzled is where 16 bytes, number c of row r, stand in a stage. Eight rows of one c lie in different banks, for ldmatrix.
template <int depth>
__device__ __forceinline__ int swizzled(int r, int c) {
    static_assert(depth == 64 || depth == 128, "rows of 4 or 8 times 16 bytes");
    return r * depth + (depth == 64 ? c ^ (r >> 1 & 3) : c ^ (r & 7)) * 16;
}

// load_rows begins to copy the stage's depth of `rows` rows, which are stride bytes apart.
template <class T, int rows>
__device__ __forceinline__ void load_rows(unsigned char* to, const unsigned char* from, long long stride) {
    constexpr int each = T::depth / 16;
    static_assert(rows * each % T::threads == 0, "all threads copy as much");
#pragma unroll
    for (int i = 0; i < rows * each / T::threads; i++) {
        int at = i * T::threads + threadIdx.x, r = at / each, c = at % each;
        copy_async(to + swizzled<T::depth>(r, c), from + r * stride + c * 16);
    }
}

// Packed are the rows of a factor, stride bytes long and apart, from the tile's first on.
template <class T, int rows>
struct Packed {
    const unsigned char* at;
    int stride;

    // load begins to copy the depth of a step to its stage.
    __device__ __forceinline__ void load(unsigned char* to, int step) const { load_rows<T, rows>(to, at + step * T::depth, stride); }
};

// Stages are the shared memory of a product: load(n) begins to copy step n of the depth of both factors.
template <class T, class X>
struct Stages {
    unsigned char* shared;
    X& x;
    Packed<T, T::columns> w;

    __device__ __forceinline__ unsigned char* of(int step) const { return shared + step % T::stages * T::stage; }
    __device__ __forceinline__ void load(int step) {
        x.load(of(step), step);
        w.load(of(step) + T::rows * T::depth, step);
    }
};

// multiply_warps is multiply where each warp multiplies its part.
template <class N, class T, class X>
__device__ __forceinline__ void multiply_warps(typename N::Sum (&sum)[T::down16][T::across8][4], X& x, const unsigned char* w, int stride, unsigned char* shared) {
    const int steps = stride / T::depth, lane = threadIdx.x % 32;
    Stages<T, X> stages = {shared, x, {w, stride}};
    for (int step = 0; step < T::stages - 1; step++) {
        if (step < steps) stages.load(step);
        copy_commit();
    }
    const int row = T::first_row() + lane % 16;                                     // of four 8x8 matrices: lower rows, then the right half
    const int column = T::first_column() + lane % 8 + lane / 16 * 8;                // right half first
    for (int step = 0; step < steps; step++) {
        copy_wait<T::stages - 2>();
        __syncthreads();  // the step's stage has arrived, and nobody reads the one before it any more
        if (step + T::stages - 1 < steps) stages.load(step + T::stages - 1);
        copy_commit();
        const unsigned char* a_stage = stages.of(step);
        const unsigned char* b_stage = a_stage + T::rows * T::depth;
#pragma unroll
        for (int k = 0; k < T::depth / 32; k++) {
            unsigned a[T::down16][4], b[T::across8 / 2][4];
#pragma unroll
            for (int i = 0; i < T::down16; i++) ldmatrix_x4(a[i], a_stage + swizzled<T::depth>(row + 16 * i, 2 * k + lane / 16));
#pragma unroll
            for (int j = 0; j < T::across8 / 2; j++) ldmatrix_x4(b[j], b_stage + swizzled<T::depth>(column + 16 * j, 2 * k + lane / 8 % 2));
#pragma unroll
            for (int i = 0; i < T::down16; i++)
#pragma unroll
                for (int j = 0; j < T::across8; j++) N::mma(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }
    copy_wait<0>();
    __syncthreads();  // the shared memory may be used for something else
}

#ifdef HOPPER
// multiply_warpgroups is multiply where groups of warps do. The products of a step go on while the next one's begin, so that a stage can be loaded again
// two steps after its own.
template <class N, class T, class X>
__device__ __forceinline__ void multiply_warpgroups(typename N::Sum (&sum)[1][16][4], X& x, const unsigned char* w, int stride, unsigned char* shared) {
    constexpr int ahead = T::stages - 2;
    const int steps = stride / T::depth;
    Stages<T, X> stages = {shared, x, {w, stride}};
    for (int step = 0; step < ahead; step++) {
        if (step < steps) stages.load(step);
        copy_commit();
    }
    int step = 0;
    do {  // no other way leads around it, as sums must not be touched before the last wait
        copy_wait<ahead - 1>();
        wgmma_visible();
        __syncthreads();  // the step's stage has arrived, and all products of two steps before are done
        if (step + ahead < steps) stages.load(step + ahead);
        copy_commit();
        const Descriptor a = describe(stages.of(step) + threadIdx.x / 128 * 64 * T::depth), b = describe(stages.of(step) + T::rows * T::depth);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < T::depth / 32; k++) N::wgmma(sum[0], along(a, k), along(b, k));
        wgmma_commit();
        wgmma_wait<1>();
    } while (++step < steps);
    wgmma_wait<0>();
    wgmma_keep(sum[0]);
    copy_wait<0>();
    __syncthreads();  // the shared memory may be used for something else
}
#endif

// multiply adds to sum the product of the tile's rows of x with its rows of w, which are `stride` bytes long and apart. X loads the steps of
// its depth in order, each once.
template <class N, class T, class X>
__device__ __forceinline__ void multiply(typename N::Sum (&sum)[T::down16][T::across8][4], X& x, const unsigned char* w, int stride, unsigned char* shared) {
#ifdef HOPPER
    if constexpr (T::warpgroups) multiply_warpgroups<N, T>(sum, x, w, stride, shared);
    else
#endif
        multiply_warps<N, T>(sum, x, w, stride, shared);
}

// Of rows that are packed like those of w.
template <class N, class T>
__device__ __forceinline__ void multiply(typename N::Sum (&sum)[T::down16][T::across8][4], const unsigned char* x, const unsigned char* w, int stride,
                                         unsigned char* shared) {
    Packed<T, T::rows> rows = {x, stride};
    multiply<N, T>(sum, rows, w, stride, shared);
}

// multiply_row computes numbers 0..15 of one row's product, bit for bit as multiply would. Lane l < 4 gets 2l, 2l+1, 2l+8 and 2l+9.
template <class N>
__device__ __forceinline__ void multiply_row(typename N::Sum (&sum)[4], const unsigned char* x, const unsigned char* w, int stride) {
    const int lane = threadIdx.x % 32, group = lane / 4, at = lane % 4 * 4;
    typename N::Sum d[2][4] = {};
    const unsigned char* w0 = w + (long long)group * stride + at;
    const unsigned char* w8 = w0 + 8LL * stride;
#pragma unroll 4
    for (int k = 0; k < stride; k += 32) {
        unsigned a[4] = {};
        if (group == 0) {
            a[0] = *(const unsigned*)(x + k + at);
            a[2] = *(const unsigned*)(x + k + at + 16);
        }
        N::mma(d[0], a, *(const unsigned*)(w0 + k), *(const unsigned*)(w0 + k + 16));
        N::mma(d[1], a, *(const unsigned*)(w8 + k), *(const unsigned*)(w8 + k + 16));
    }
    sum[0] = d[0][0], sum[1] = d[0][1], sum[2] = d[1][0], sum[3] = d[1][1];
}

// ---- float32: fused multiply-adds, one after another along the depth ----

// Plain is a tile of float32. A thread has 4 x 4 numbers in each of down x across parts of it.
template <int rows_, int columns_, int down_, int across_>
struct Plain {
    static constexpr int rows = rows_, columns = columns_, down = down_, across = across_;
    static constexpr int wide = columns / (4 * across);  // threads that share a row
    static constexpr int threads = rows / (4 * down) * wide;
    static constexpr int depth = 16, x_stride = rows + 4, w_stride = columns + 4;  // of a number of the depth in shared memory
    static constexpr int stage = depth * (x_stride + w_stride);
    static constexpr int shared = 2 * stage * int(sizeof(float));

    static __device__ __forceinline__ int row(int i) { return i * (rows / down) + int(threadIdx.x) / wide * 4; }
    static __device__ __forceinline__ int column(int j) { return j * (columns / across) + int(threadIdx.x) % wide * 4; }
};

// Strided is a matrix in memory: number (i, k) is at[i*down + k*right]. Outside `rows` x `depth` it is 0.
struct Strided {
    const float* at;
    long long down, right;
    int rows, depth;
};

// fetch_four reads numbers k..k+3 of row i.
__device__ __forceinline__ float4 fetch_four(const Strided& m, int i, int k) {
    if (i >= m.rows || k >= m.depth) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float* p = m.at + i * m.down + k * m.right;
    if (m.right == 1 && m.down % 4 == 0 && k + 4 <= m.depth && (size_t)m.at % 16 == 0) return *(const float4*)p;
    return make_float4(p[0], k + 1 < m.depth ? p[m.right] : 0.0f, k + 2 < m.depth ? p[2 * m.right] : 0.0f, k + 3 < m.depth ? p[3 * m.right] : 0.0f);
}

// Fetched are the numbers of one matrix that a thread carries from memory to a stage. Threads beside each other read what is
// beside each other in memory: along the depth, or down the rows of a transposed matrix.
template <class T, int rows, int stride, class M = Strided>
struct Fetched {
    static constexpr int count = rows * T::depth / 4 / T::threads;
    static_assert(count * T::threads * 4 == rows * T::depth, "all threads carry as much");
    float4 v[count];

    __device__ __forceinline__ Fetched(const Strided&, int) {}
    static __device__ __forceinline__ void place(const Strided& m, int n, int& i, int& k) {
        int at = n * T::threads + threadIdx.x;
        if (m.right == 1) i = at / (T::depth / 4), k = at % (T::depth / 4) * 4;
        else i = at % rows, k = at / rows * 4;
    }
    __device__ __forceinline__ void read(const Strided& m, int row, int depth) {
#pragma unroll
        for (int n = 0; n < count; n++) {
            int i, k;
            place(m, n, i, k);
            v[n] = fetch_four(m, row + i, depth + k);
        }
    }
    __device__ __forceinline__ void write(const Strided& m, float* stage) const {
#pragma unroll
        for (int n = 0; n < count; n++) {
            int i, k;
            place(m, n, i, k);
            stage[(k + 0) * stride + i] = v[n].x;
            stage[(k + 1) * stride + i] = v[n].y;
            stage[(k + 2) * stride + i] = v[n].z;
            stage[(k + 3) * stride + i] = v[n].w;
        }
    }
};

// take reads four numbers at once.
__device__ __forceinline__ void take(float (&v)[4], const float* from) {
    float4 f = *(const float4*)from;
    v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
}
__device__ __forceinline__ float4 four_of(const float (&v)[4]) { return make_float4(v[0], v[1], v[2], v[3]); }

// multiply_plain adds to sum the product of rows `row`... of x with rows `column`... of w. Number (i, j) of the parts is sum[i/4][j/4][i%4][j%4].
template <class T, class X>
__device__ __forceinline__ void multiply_plain(float (&sum)[T::down][T::across][4][4], const X& x, const Strided& w, int row, int column, float* shared) {
    Fetched<T, T::rows, T::x_stride, X> xs(x, row);
    Fetched<T, T::columns, T::w_stride> ws(w, column);
    xs.read(x, row, 0);
    ws.read(w, column, 0);
    for (int k = 0, at = 0; k < x.depth; k += T::depth, at ^= 1) {
        float* x_stage = shared + at * T::stage;
        float* w_stage = x_stage + T::depth * T::x_stride;
        xs.write(x, x_stage);
        ws.write(w, w_stage);
        __syncthreads();  // the other stage is free: all have passed the barrier that came after it was read
        if (k + T::depth < x.depth) {
            xs.read(x, row, k + T::depth);
            ws.read(w, column, k + T::depth);
        }
#pragma unroll
        for (int d = 0; d < T::depth; d++) {
            float a[T::down][4], b[T::across][4];
#pragma unroll
            for (int i = 0; i < T::down; i++) take(a[i], x_stage + d * T::x_stride + T::row(i));
#pragma unroll
            for (int j = 0; j < T::across; j++) take(b[j], w_stage + d * T::w_stride + T::column(j));
#pragma unroll
            for (int i = 0; i < T::down; i++)
#pragma unroll
                for (int j = 0; j < T::across; j++)
#pragma unroll
                    for (int p = 0; p < 4; p++)
#pragma unroll
                        for (int q = 0; q < 4; q++) sum[i][j][p][q] = fmaf(a[i][p], b[j][q], sum[i][j][p][q]);
        }
    }
    __syncthreads();  // the shared memory may be used for something else
}

// ---- where a block's tile is ----

// place_tile walks over 16 rows of tiles at a time, down first: the blocks that run together share rows of both factors in the cache.
__device__ __forceinline__ void place_tile(int down, int across, int& i, int& j) {
    int strip = blockIdx.x / (16 * across), first = strip * 16, high = min(down - first, 16);
    int at = blockIdx.x - first * across;
    i = first + at % high;
    j = at / high;
}

// finished is a number of the product with its scales (1 but for int8) and bias. It is spelled with fmaf so that all kernels round alike.
__device__ __forceinline__ float finished(float sum, float row_scale, float column_scale, float bias) { return fmaf(sum, row_scale * column_scale, bias); }
