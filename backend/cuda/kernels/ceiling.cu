// What the multiprocessors do at most: loops of nothing but the instruction that limits products. Shares in traces are of these.
#include "common.cuh"

// A thread has 16 sums in float32, a warp 8 of 16x8 numbers on tensor cores, all independent. Each of n rounds adds to all of them once. They are
// written so that they must be computed.
extern "C" __global__ void __launch_bounds__(256) unmask_ceiling_f32(float* out, int n) {
    float sum[16], a = 1.0f + threadIdx.x * 1e-6f, b = threadIdx.x * 1e-3f, all = 0.0f;
#pragma unroll
    for (int i = 0; i < 16; i++) sum[i] = float(i);
    for (int k = 0; k < n; k++)
#pragma unroll
        for (int i = 0; i < 16; i++) sum[i] = fmaf(sum[i], a, b);
#pragma unroll
    for (int i = 0; i < 16; i++) all += sum[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}
EXPORT(unmask_ceiling_f32)

template <class Sum, class Mma>
__device__ __forceinline__ void ceiling(float* out, int n, unsigned factor, Mma mma) {
    Sum sum[8][4] = {};
    const unsigned a[4] = {factor, factor + threadIdx.x, factor, factor};
    for (int k = 0; k < n; k++)
#pragma unroll
        for (int i = 0; i < 8; i++) mma(sum[i], a, factor, factor + i);
    float all = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) all += float(sum[i][0]) + float(sum[i][1]) + float(sum[i][2]) + float(sum[i][3]);
    out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}

extern "C" __global__ void __launch_bounds__(256) unmask_ceiling_bf16(float* out, int n) {
    ceiling<float>(out, n, 0x3f803f80u, [](float(&d)[4], const unsigned(&a)[4], unsigned b0, unsigned b1) { mma_bf16(d, a, b0, b1); });
}
EXPORT(unmask_ceiling_bf16)

extern "C" __global__ void __launch_bounds__(256) unmask_ceiling_int8(float* out, int n) {
    ceiling<int>(out, n, 0x01010101u, [](int(&d)[4], const unsigned(&a)[4], unsigned b0, unsigned b1) { mma_s8(d, a, b0, b1); });
}
EXPORT(unmask_ceiling_int8)

#ifdef HOPPER
// A group's products in shared memory, of 64 rows and 128.
template <class Sum, class Wgmma>
__device__ __forceinline__ void ceiling_wgmma(float* out, int n, Wgmma wgmma) {
    SHARED(shared);
    for (int i = threadIdx.x; i < 192 * 128 / 4; i += blockDim.x) ((unsigned*)shared)[i] = i * 2654435761u & 0x3f7f3f7fu;
    wgmma_visible();
    __syncthreads();
    Sum sum[16][4] = {};
    const Descriptor a = describe(shared), b = describe(shared + 64 * 128);
    do {
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < 8; i++) wgmma(sum, along(a, i % 4), along(b, i % 4));
        wgmma_commit();
        wgmma_wait<0>();
    } while (--n > 0);
    wgmma_keep(sum);
    float all = 0.0f;
#pragma unroll
    for (int i = 0; i < 16; i++) all += float(sum[i][0]) + float(sum[i][1]) + float(sum[i][2]) + float(sum[i][3]);
    out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}

extern "C" __global__ void __launch_bounds__(256) unmask_ceiling_bf16_wgmma(float* out, int n) {
    ceiling_wgmma<float>(out, n, [](float(&d)[16][4], Descriptor a, Descriptor b) { wgmma_bf16(d, a, b); });
}
EXPORT(unmask_ceiling_bf16_wgmma)

extern "C" __global__ void __launch_bounds__(256) unmask_ceiling_int8_wgmma(float* out, int n) {
    ceiling_wgmma<int>(out, n, [](int(&d)[16][4], Descriptor a, Descriptor b) { wgmma_s8(d, a, b); });
}
EXPORT(unmask_ceiling_int8_wgmma)
#endif
