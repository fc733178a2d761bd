// What all kernels share: the tensor cores' instructions, bfloat16, activations and reductions of warps and blocks.
//
// A kernel is extern "C" __global__ void unmask_...(pointers and numbers of 4 or 8 bytes), followed by EXPORT(name). The arithmetic of
// a row depends neither on the other rows nor on where the row stands.
#pragma once

#ifdef __CUDACC__
#define EXPORT(kernel)
#define SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#else
#include "emulate.h"
#define HOPPER
#define EXPORT(kernel) static emulate::Registration kernel##_registration(#kernel, kernel);
#define SHARED(name) unsigned char* const name = emulate::shared
#endif
// SHARED declares the launch's dynamic shared memory; EXPORT lets the emulator find a kernel by name. HOPPER is defined where kernels may use
// what only compute capability 9.0 has.

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

// ---- Hopper's tensor cores: a group of four warps multiplies factors in shared memory, in the background (PTX ISA, "wgmma") ----

#ifdef HOPPER
// Descriptor is the matrix descriptor of a factor in shared memory: rows of 128 bytes from a multiple of 1024 on, 16 bytes c of row r at c ^ r%8.
using Descriptor = unsigned long long;
__device__ __forceinline__ Descriptor describe(const void* rows) {
    return (unsigned long long)(shared_address(rows) >> 4) | 64ull << 32 | 1ull << 62;  // 1024 bytes from eight rows to the next eight; swizzled by 128
}
// along is the factor 32 bytes further along its rows.
__device__ __forceinline__ Descriptor along(Descriptor f, int steps) { return f + 2 * steps; }

// wgmma_fence comes before the products of a group; wgmma_commit ends a set of products, wgmma_wait<n> waits for all but the last n sets.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int n> __device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory"); }
// wgmma_visible lets products see what this thread has copied to shared memory; a barrier must follow.
__device__ __forceinline__ void wgmma_visible() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define EIGHT(c, d, i) c(d[i][0]), c(d[i][1]), c(d[i][2]), c(d[i][3]), c(d[i + 1][0]), c(d[i + 1][1]), c(d[i + 1][2]), c(d[i + 1][3])
#define WGMMA_SUMS(c, d) EIGHT(c, d, 0), EIGHT(c, d, 2), EIGHT(c, d, 4), EIGHT(c, d, 6), EIGHT(c, d, 8), EIGHT(c, d, 10), EIGHT(c, d, 12), EIGHT(c, d, 14)
#define WGMMA_NAMES                                                                                                                              \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35," \
    "%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"

// wgmma_bf16 adds to d[64, 128] the product of a[64, 16] and b[128, 16]^T of bfloat16. Warp w of the group has rows 16w..16w+15; d[n] is what
// mma_bf16 has of columns 8n..8n+7. The bits are those of mma_bf16 (seen on an H200).
__device__ __forceinline__ void wgmma_bf16(float (&d)[16][4], Descriptor a, Descriptor b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " WGMMA_NAMES ", %64, %65, 1, 1, 1, 0, 0;"
                 : WGMMA_SUMS("+f", d) : "l"(a), "l"(b));
}
// wgmma_s8 is the same of signed bytes, 32 along the rows.
__device__ __forceinline__ void wgmma_s8(int (&d)[16][4], Descriptor a, Descriptor b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 " WGMMA_NAMES ", %64, %65, 1;" : WGMMA_SUMS("+r", d) : "l"(a), "l"(b));
}
// wgmma_keep makes the compiler read sums after what stands before it.
template <class S> __device__ __forceinline__ void wgmma_keep(S (&d)[16][4]);
template <> __device__ __forceinline__ void wgmma_keep(float (&d)[16][4]) { asm volatile("" : WGMMA_SUMS("+f", d)::"memory"); }
template <> __device__ __forceinline__ void wgmma_keep(int (&d)[16][4]) { asm volatile("" : WGMMA_SUMS("+r", d)::"memory"); }
#endif

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

// Products of groups are computed when they are waited for, no sooner: so a wait too few, or a stage that is loaded too soon, shows. A group's
// warps are on their own here.
using Descriptor = const unsigned char*;
inline Descriptor describe(const void* rows) {
    if (reinterpret_cast<uintptr_t>(rows) % 1024) emulate::fail("a factor beside a multiple of 1024 bytes");
    return static_cast<Descriptor>(rows);
}
inline Descriptor along(Descriptor f, int steps) { return f + 32 * steps; }
inline void wgmma_fence() {}
inline void wgmma_visible() {}
inline void wgmma_commit() { emulate::current->set++; }
template <class S> inline void wgmma_keep(S (&)[16][4]) {}

namespace emulate {
struct Factors { void* d; Descriptor a, b; int warp; };

// wgmma multiplies rows of `per` numbers a register: x[16, k] of the warp by w[128, k]^T.
template <class T, class Sum, int per, class Number>
inline void wgmma(const Product& p, Number number) {
    together<int>(Factors{p.d, p.a, p.b, int(current->number / 32 % 4)}, [&](const Factors* in, int*) {
        constexpr int k = 8 * per;
        auto read = [&](Descriptor f, int row, T* to) {
            for (int i = 0; i < 8; i++) {
                uintptr_t at = reinterpret_cast<uintptr_t>(f) + row * 128 + 4 * i;
                unsigned v = *reinterpret_cast<const unsigned*>(at ^ (at >> 7 & 7) << 4);
                for (int j = 0; j < per; j++) to[i * per + j] = number(v, j);
            }
        };
        typedef T Row __attribute__((vector_size(8 * sizeof(T))));
        T x[16][k];
        for (int g = 0; g < 16; g++) read(in[0].a, 16 * in[0].warp + g, x[g]);
        for (int n = 0; n < 16; n++) {
            T column[k];
            Row w[k], sums[16] = {};
            for (int c = 0; c < 8; c++) {
                read(in[0].b, 8 * n + c, column);
                for (int i = 0; i < k; i++) w[i][c] = column[i];
            }
            for (int g = 0; g < 16; g++)
                for (int i = 0; i < k; i++) sums[g] += x[g][i] * w[i];
            for (int l = 0; l < 32; l++)
                for (int r = 0; r < 4; r++)
                    static_cast<Sum(*)[4]>(in[l].d)[n][r] += Sum(sums[l / 4 + r / 2 * 8][l % 4 * 2 + r % 2]);
        }
    });
}
}  // namespace emulate

inline void wgmma_bf16(float (&d)[16][4], Descriptor a, Descriptor b) {
    emulate::current->products.push_back({d, a, b, emulate::current->set, [](const emulate::Product& p) {
        emulate::wgmma<float, float, 2>(p, [](unsigned v, int i) { return i ? bf16_high(v) : bf16_low(v); });
    }});
}
inline void wgmma_s8(int (&d)[16][4], Descriptor a, Descriptor b) {
    emulate::current->products.push_back({d, a, b, emulate::current->set, [](const emulate::Product& p) {
        emulate::wgmma<int, int, 4>(p, [](unsigned v, int i) { return int(int8_t(v >> 8 * i)); });
    }});
}
template <int n> inline void wgmma_wait() {
    emulate::Thread* t = emulate::current;
    size_t done = 0;
    for (; done < t->products.size() && t->products[done].set + n < t->set; done++) t->products[done].compute(t->products[done]);
    t->products.erase(t->products.begin(), t->products.begin() + done);
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
