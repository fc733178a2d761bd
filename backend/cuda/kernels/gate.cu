// What is multiplied number by number: the second half of a gated product, and rows that are added times a scale.
#include "common.cuh"

// y = x*times, or y += x*times with add, y being dst, or narrow in bfloat16, or both. dst may be times.
extern "C" __global__ void __launch_bounds__(256) unmask_gate(const float* x, const float* times, long long n, int add, float* dst, unsigned short* narrow) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
        float y = x[i] * times[i];
        if (add) y += dst[i];
        if (dst) dst[i] = y;
        if (narrow) narrow[i] = bf16(y);
    }
}
EXPORT(unmask_gate)

// dst[i] += scale[i]*src[from[i]]. A warp has a row.
extern "C" __global__ void __launch_bounds__(256) unmask_add_scaled(float* dst, const float* src, const int* from, const float* scale, int rows, int width) {
    long long i = (long long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i >= rows) return;
    const float* x = src + (long long)from[i] * width;
    for (int j = threadIdx.x % 32; j < width; j += 32) dst[i * width + j] = fmaf(scale[i], x[j], dst[i * width + j]);
}
EXPORT(unmask_add_scaled)
