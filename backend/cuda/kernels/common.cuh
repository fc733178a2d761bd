// What all kernels share: the tensor cores' instructions, bfloat16, activations and reductions of warps and blocks.
//
// A kernel is extern "C" __global__ void unmask_...(pointers and numbers of 4 or 8 bytes), followed by EXPORT(name). The arithmetic of
// a row depends neither on the other rows nor on where the row stands.
#pragma once

#ifdef __CUDACC__
#define EXPORT(kernel)
#define SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#else
#include "emulate.h"
#define EXPORT(kernel) static emulate::Registration kernel##_registration(#kernel, kernel);
#define SHARED(name) unsigned char* const name = emulate::shared
#endif
// SHARED declares the launch's dynamic shared memory; EXPORT lets the emulator find a kernel by name.

#define INFINITE __int_as_float(0x7f800000)
#define FULL_WARP 0xffffffffu

// Activation as in package backend.
enum Activation { Identity, GELUTanh, GELUErf, SiLU, ReLU };

// Segment as in package backend: rows Row..Row+Rows-1 belong to sequence Seq.
struct Segment { int seq, row, rows, pos; };

// ---- bfloat16: the upper half of a float32, rounded to nearest even ----

#ifdef __CUDACC__
// bf16_pair packs two numbers, a in the lower half.
__device__ __forceinline__ unsigned bf16_pair(float a, float b) {
    unsigned r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
}
__device__ __forceinline__ unsigned short bf16(float a) { return (unsigned short)bf16_pair(a, 0.0f); }
#else
inline unsigned short bf16(float a) {
    if (a != a) return 0x7fff;
    unsigned u = __float_as_uint(a);
    return (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
inline unsigned bf16_pair(float a, float b) { return bf16(a) | unsigned(bf16(b)) << 16; }
#endif

// store_bf16 writes number or four numbers i.
__device__ __forceinline__ void store_bf16(unsigned short* to, long long i, float v) { to[i] = bf16(v); }
__device__ __forceinline__ void store_bf16(unsigned short* to, long long i, float4 v) {
    reinterpret_cast<uint2*>(to)[i] = make_uint2(bf16_pair(v.x, v.y), bf16_pair(v.z, v.w));
}

__device__ __forceinline__ float bf16_low(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float bf16_high(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ float bf16_value(unsigned short v) { return __uint_as_float((unsigned)v << 16); }

// ---- tensor cores. Lane l has group g = l/4 and place t = l%4 (PTX ISA, "Matrix Fragments for mma") ----

#ifdef __CUDACC__

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// ldmatrix_x4 loads four 8x8 matrices of 16-bit numbers. Lane l gives the address of row l%8 of matrix l/8, 16 bytes in shared memory. It
// gets from matrix i the numbers 2t and 2t+1 of row g in r[i]; the transposed form, of column g.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_transposed(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}

// mma_bf16 computes d[16, 8] += a[16, 16] b[16, 8], float32 sums. a[0..3] are rows g, g+8, g, g+8 and columns 2t, 2t+1, the last two 8
// further; b0 and b1 rows 2t, 2t+1 and 8 further of column g; d rows g (d[0], d[1]) and g+8 of columns 2t, 2t+1.
__device__ __forceinline__ void mma_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// mma_s8 computes d[16, 8] += a[16, 32] b[32, 8] of signed bytes. Fragments are those of mma_bf16 with four bytes for two numbers.
__device__ __forceinline__ void mma_s8(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// copy_async copies 16 bytes from global to shared memory in the background, zeros unless valid. copy_commit ends a group of
// copies; copy_wait<n> waits until all but the n last groups have arrived (for this thread: a barrier must follow).
__device__ __forceinline__ void copy_async(void* to, const void* from, bool valid = true) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int n> __device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory"); }

#else

namespace emulate {
struct Registers { unsigned r[4]; };
struct Operands { unsigned a[4], b[2]; unsigned d[4]; };

inline const void* aligned(const void* p) {
    if (reinterpret_cast<uintptr_t>(p) % 16) fail("an address beside a multiple of 16 bytes");
    return p;
}

// ldmatrix hands out pairs of four 8x8 matrices whose rows the lanes point to.
template <bool transposed> inline void ldmatrix(unsigned (&r)[4], const void* row) {
    Registers got = together<Registers>(aligned(row), [](const void* const* rows, Registers* out) {
        for (int l = 0; l < 32; l++)
            for (int m = 0; m < 4; m++) {
                unsigned pair[2];
                for (int j = 0; j < 2; j++) {
                    int y = l / 4, x = l % 4 * 2 + j;
                    if (transposed) std::swap(x, y);
                    pair[j] = static_cast<const unsigned short*>(rows[8 * m + y])[x];
                }
                out[l].r[m] = pair[0] | pair[1] << 16;
            }
    });
    memcpy(r, got.r, sizeof r);
}

// mma multiplies fragments of `per` numbers a register, k = 8 registers of them: number i of register r of lane l in A, B and D.
template <class T, class Sum, int per, class Number>
inline void mma(Sum (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, Number number) {
    Operands mine;
    memcpy(mine.a, a, sizeof a);
    mine.b[0] = b0, mine.b[1] = b1;
    memcpy(mine.d, d, sizeof d);
    Registers got = together<Registers>(mine, [&](const Operands* in, Registers* out) {
        constexpr int k = 8 * per;
        typedef T Row __attribute__((vector_size(8 * sizeof(T))));
        T x[16][k];
        Row w[k], sums[16] = {};
        for (int l = 0; l < 32; l++)
            for (int i = 0; i < per; i++) {
                int g = l / 4, t = l % 4 * per + i;
                for (int r = 0; r < 4; r++) x[g + r % 2 * 8][t + r / 2 * 4 * per] = number(in[l].a[r], i);
                for (int r = 0; r < 2; r++) w[t + r * 4 * per][g] = number(in[l].b[r], i);
            }
        for (int g = 0; g < 16; g++)
            for (int i = 0; i < k; i++) sums[g] += x[g][i] * w[i];
        for (int l = 0; l < 32; l++)
            for (int r = 0; r < 4; r++) {
                Sum sum = sums[l / 4 + r / 2 * 8][l % 4 * 2 + r % 2];
                out[l].r[r] = bits<unsigned>(bits<Sum>(in[l].d[r]) + sum);
            }
    });
    memcpy(d, got.r, sizeof d);
}
}  // namespace emulate

inline void ldmatrix_x4(unsigned (&r)[4], const void* row) { emulate::ldmatrix<false>(r, row); }
inline void ldmatrix_x4_transposed(unsigned (&r)[4], const void* row) { emulate::ldmatrix<true>(r, row); }
inline void mma_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emulate::mma<float, float, 2>(d, a, b0, b1, [](unsigned v, int i) { return i ? bf16_high(v) : bf16_low(v); });
}
inline void mma_s8(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emulate::mma<int, int, 4>(d, a, b0, b1, [](unsigned v, int i) { return int(int8_t(v >> 8 * i)); });
}

// A copy arrives when it is waited for, no sooner, and until then its target holds NaN: so a wait or barrier too few shows.
inline void copy_async(void* to, const void* from, bool valid = true) {
    emulate::aligned(to);
    emulate::Thread* t = emulate::current;
    memset(to, 0xff, 16);
    t->copies.push_back({to, valid ? emulate::aligned(from) : nullptr, 16, t->group});
}
inline void copy_commit() { emulate::current->group++; }
template <int n> inline void copy_wait() {
    emulate::Thread* t = emulate::current;
    size_t done = 0;
    for (; done < t->copies.size() && t->copies[done].group + n < t->group; done++) {
        const emulate::Copy& c = t->copies[done];
        if (c.from) memcpy(c.to, c.from, c.bytes);
        else memset(c.to, 0, c.bytes);
    }
    t->copies.erase(t->copies.begin(), t->copies.begin() + done);
}

#endif

// ---- activations, in float32: a few units in the last place of max(|x|, 1) ----

__device__ __forceinline__ float activate(float x, int f) {
    if (f == Identity) return x;
    if (f == ReLU) return x < 0.0f ? 0.0f : x;
    if (x == -INFINITE) return 0.0f;  // the limit
    if (f == GELUErf) return 0.5f * x * erfcf(-0.70710678118654752f * x);
    // (1+tanh u)/2 = sigmoid(2u)
    float u = f == SiLU ? x : x * fmaf(0.07135481627159786f, x * x, 1.5957691216057308f);
    return __fdividef(x, 1.0f + expf(-u));  // within 2 units in the last place, a third of a division's instructions
}

// The same of four numbers, with one look at f.
__device__ __forceinline__ float4 activate(float4 x, int f) {
#define ACTIVATE(f) make_float4(activate(x.x, f), activate(x.y, f), activate(x.z, f), activate(x.w, f))
    switch (f) {
    case GELUTanh: return ACTIVATE(GELUTanh);
    case GELUErf: return ACTIVATE(GELUErf);
    case SiLU: return ACTIVATE(SiLU);
    case ReLU: return ACTIVATE(ReLU);
    }
    return x;
#undef ACTIVATE
}

// ---- reductions: every lane or thread gets the result, the order of the sum is that of a tree over lanes ----

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int i = 16; i > 0; i >>= 1) v += __shfl_xor_sync(FULL_WARP, v, i);
    return v;
}
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int i = 16; i > 0; i >>= 1) v = fmaxf(v, __shfl_xor_sync(FULL_WARP, v, i));
    return v;
}

// block_sum needs all threads of a block of whole warps, in one dimension, and 32 floats of shared memory.
__device__ __forceinline__ float block_sum(float v, float* scratch) {
    int warps = blockDim.x / 32, lane = threadIdx.x % 32;
    v = warp_sum(v);
    __syncthreads();  // scratch may still be read from before
    if (lane == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_sum(lane < warps ? scratch[lane] : 0.0f);
}
