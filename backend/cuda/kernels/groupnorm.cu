// GroupNorm in two steps: sums of each channel over chunks of an image's pixels, then over a group's channels and all chunks. The chunks
// depend on nothing but the pixel's place. Sums are in float64, which makes the mean of squares less the square of the mean good enough.
#include "common.cuh"

constexpr int chunk_pixels = 64;

// Block (chunk, image). Threads stand side by side along channels, what is left of them along pixels.
extern "C" __global__ void __launch_bounds__(256) unmask_channel_sums(double2* sums, const float* x, int pixels, int channels) {
    __shared__ double2 part[256];
    int width = min(channels, 256), down = 256 / width, first = blockIdx.x * chunk_pixels, end = min(first + chunk_pixels, pixels);
    int column = threadIdx.x % width, row = threadIdx.x / width;
    x += (long long)blockIdx.y * pixels * channels;
    sums += ((long long)blockIdx.y * gridDim.x + blockIdx.x) * channels;
    for (int base = 0; base < channels; base += width) {
        int c = base + column;
        double sum = 0.0, squares = 0.0;
        if (row < down && c < channels) {
#pragma unroll 8
            for (int p = first + row; p < end; p += down) {
                double v = x[(long long)p * channels + c];
                sum += v;
                squares = fma(v, v, squares);
            }
        }
        part[threadIdx.x] = make_double2(sum, squares);
        __syncthreads();
        if (row == 0 && c < channels) {
            for (int i = 1; i < down; i++) {
                sum += part[i * width + column].x;
                squares += part[i * width + column].y;
            }
            sums[c] = make_double2(sum, squares);
        }
        __syncthreads();
    }
}
EXPORT(unmask_channel_sums)

// Block (group, image) of 256 threads.
extern "C" __global__ void __launch_bounds__(256) unmask_group_norm(float* scale, float* shift, const double2* sums, const float* a, const float* b, int chunks, int pixels,
                                                                    int channels, int groups, float eps) {
    __shared__ double2 part[8];
    int size = channels / groups, first = blockIdx.x * size;
    sums += (long long)blockIdx.y * chunks * channels + first;
    double sum = 0.0, squares = 0.0;
    for (int i = threadIdx.x; i < chunks * size; i += 256) {
        double2 v = sums[(long long)(i / size) * channels + i % size];
        sum += v.x;
        squares += v.y;
    }
    for (int i = 16; i > 0; i >>= 1) {
        sum += __shfl_xor_sync(FULL_WARP, sum, i);
        squares += __shfl_xor_sync(FULL_WARP, squares, i);
    }
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = make_double2(sum, squares);
    __syncthreads();
    sum = squares = 0.0;
    for (int i = 0; i < 8; i++) {
        sum += part[i].x;
        squares += part[i].y;
    }
    double n = (double)pixels * size, mean = sum / n, variance = squares / n - mean * mean;
    double r = 1.0 / sqrt((variance < 0.0 ? 0.0 : variance) + eps);
    for (int i = threadIdx.x; i < size; i += 256) {
        int c = first + i;
        double s = a ? r * a[c] : r;
        long long at = (long long)blockIdx.y * channels + c;
        scale[at] = (float)s;
        shift[at] = (float)((b ? b[c] : 0.0) - mean * s);
    }
}
EXPORT(unmask_group_norm)
