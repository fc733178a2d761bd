// LayerNorm: a warp has a row, and keeps it in registers if it fits. The variance is the mean of squares of differences from the mean.
// Results go as float32 to dst and as bfloat16 to narrow, where they are not null.
#include "common.cuh"

__device__ __forceinline__ float4 affine_at(const float* p, int i, float otherwise) {
    return p ? reinterpret_cast<const float4*>(p)[i] : make_float4(otherwise, otherwise, otherwise, otherwise);
}

// normalise_row is for widths that are multiples of 4 up to 128*quads.
template <int quads>
__device__ __forceinline__ void normalise_row(float* dst, unsigned short* narrow, const float* x, const float* scale, const float* shift, int width, float eps) {
    int lane = threadIdx.x % 32, n = width / 4;
    float4 v[quads];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < quads; i++) {
        int j = lane + 32 * i;
        v[i] = j < n ? reinterpret_cast<const float4*>(x)[j] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        sum += v[i].x + v[i].y + (v[i].z + v[i].w);
    }
    float mean = warp_sum(sum) / width, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < quads; i++) {
        if (lane + 32 * i >= n) continue;
        v[i] = make_float4(v[i].x - mean, v[i].y - mean, v[i].z - mean, v[i].w - mean);
        squares += fmaf(v[i].x, v[i].x, v[i].y * v[i].y) + fmaf(v[i].z, v[i].z, v[i].w * v[i].w);
    }
    float r = 1.0f / sqrtf(warp_sum(squares) / width + eps);
#pragma unroll
    for (int i = 0; i < quads; i++) {
        int j = lane + 32 * i;
        if (j >= n) continue;
        float4 a = affine_at(scale, j, 1.0f), b = affine_at(shift, j, 0.0f);
        float4 y = make_float4(fmaf(v[i].x * r, a.x, b.x), fmaf(v[i].y * r, a.y, b.y), fmaf(v[i].z * r, a.z, b.z), fmaf(v[i].w * r, a.w, b.w));
        if (dst) reinterpret_cast<float4*>(dst)[j] = y;
        if (narrow) reinterpret_cast<uint2*>(narrow)[j] = make_uint2(bf16_pair(y.x, y.y), bf16_pair(y.z, y.w));
    }
}

// normalise_any reads the row three times.
__device__ __forceinline__ void normalise_any(float* dst, unsigned short* narrow, const float* x, const float* scale, const float* shift, int width, float eps) {
    int lane = threadIdx.x % 32;
    float sum = 0.0f, squares = 0.0f;
    for (int j = lane; j < width; j += 32) sum += x[j];
    float mean = warp_sum(sum) / width;
    for (int j = lane; j < width; j += 32) squares = fmaf(x[j] - mean, x[j] - mean, squares);
    float r = 1.0f / sqrtf(warp_sum(squares) / width + eps);
    for (int j = lane; j < width; j += 32) {
        float y = fmaf((x[j] - mean) * r, scale ? scale[j] : 1.0f, shift ? shift[j] : 0.0f);
        if (dst) dst[j] = y;
        if (narrow) narrow[j] = bf16(y);
    }
}

extern "C" __global__ void __launch_bounds__(256) unmask_layer_norm(const float* x, const float* scale, const float* shift, int rows, int width, float eps, float* dst,
                                                                    unsigned short* narrow) {
    long long i = (long long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i >= rows) return;
    x += i * width;
    if (dst) dst += i * width;
    if (narrow) narrow += i * width;
    if (width % 4 == 0 && width <= 256) normalise_row<2>(dst, narrow, x, scale, shift, width, eps);
    else if (width % 4 == 0 && width <= 768) normalise_row<6>(dst, narrow, x, scale, shift, width, eps);
    else if (width % 4 == 0 && width <= 1024) normalise_row<8>(dst, narrow, x, scale, shift, width, eps);
    else normalise_any(dst, narrow, x, scale, shift, width, eps);
}
EXPORT(unmask_layer_norm)
