// RMSNorm of rows, and of the query and key heads of rows of qkv. A warp has a row or a head.
#include "common.cuh"

// inverse_rms is 1/sqrt(mean(x^2) + eps) of n numbers, the same in all lanes of a warp.
__device__ __forceinline__ float inverse_rms(const float* x, int n, float eps) {
    float squares = 0.0f;
    for (int j = threadIdx.x % 32; j < n; j += 32) squares = fmaf(x[j], x[j], squares);
    return 1.0f / sqrtf(warp_sum(squares) / n + eps);
}

// Results go as float32 to dst and as bfloat16 to narrow, where they are not null. dst may be x.
extern "C" __global__ void __launch_bounds__(256) unmask_rms_norm(const float* x, const float* scale, int rows, int width, float eps, float* dst, unsigned short* narrow) {
    long long i = (long long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i >= rows) return;
    x += i * width;
    float r = inverse_rms(x, width, eps);
    for (int j = threadIdx.x % 32; j < width; j += 32) {
        float y = x[j] * r * (scale ? scale[j] : 1.0f);
        if (dst) dst[i * width + j] = y;
        if (narrow) narrow[i * width + j] = bf16(y);
    }
}
EXPORT(unmask_rms_norm)

// qkv [rows, heads+2*kv, dim] in place; its last kv heads, the values, stay.
extern "C" __global__ void __launch_bounds__(256) unmask_norm_heads(float* qkv, int rows, int heads, int kv, int dim, const float* q, const float* k, float q_eps,
                                                                    float k_eps) {
    long long i = (long long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i >= (long long)rows * (heads + kv)) return;
    int head = int(i % (heads + kv));
    float* x = qkv + (i / (heads + kv) * (heads + 2 * kv) + head) * dim;
    const float* scale = head < heads ? q : k;
    float r = inverse_rms(x, dim, head < heads ? q_eps : k_eps);
    for (int j = threadIdx.x % 32; j < dim; j += 32) x[j] = x[j] * r * (scale ? scale[j] : 1.0f);
}
EXPORT(unmask_norm_heads)
