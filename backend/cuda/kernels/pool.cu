// Pool, and the windows of images that convolutions share.
#include "common.cuh"

// Windows is a ConvShape: x [batch, height, width, in], result [batch, out_height, out_width, out], its pixels dst_stride numbers apart of which the
// first is dst_offset. up is 2 where x is doubled first.
struct Windows {
    int batch, height, width, in, out, out_height, out_width, kh, kw, stride, pad_h, pad_w, up, dst_stride, dst_offset;

    __device__ __forceinline__ int pixels() const { return batch * out_height * out_width; }
};

// Pixel is one of the result's.
struct Pixel { int image, y, x; };

__device__ __forceinline__ Pixel pixel_at(const Windows& w, int index) {
    int row = index / w.out_width;
    return {row / w.out_height, row % w.out_height * w.stride - w.pad_h, (index - row * w.out_width) * w.stride - w.pad_w};
}

// under is the index of x's pixel under a tap of p's window, -1 outside the image.
__device__ __forceinline__ int under(const Windows& w, Pixel p, int kh, int kw) {
    int y = p.y + kh, x = p.x + kw;
    if (y < 0 || x < 0 || y >= w.up * w.height || x >= w.up * w.width) return -1;
    if (w.up == 2) y >>= 1, x >>= 1;
    return (p.image * w.height + y) * w.width + x;
}

extern "C" __global__ void __launch_bounds__(256) unmask_pool(float* dst, const float* x, const Windows* windows, int maximum) {
    Windows w = *windows;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    int channels = w.in;
    if (i >= (long long)w.pixels() * channels) return;
    int pixel = int(i / channels), c = int(i % channels), n = 0;
    Pixel p = pixel_at(w, pixel);
    float sum = 0.0f, top = -INFINITE;
    for (int y = 0; y < w.kh; y++)
        for (int z = 0; z < w.kw; z++) {
            int from = under(w, p, y, z);
            if (from < 0) continue;
            float v = x[(long long)from * channels + c];
            sum += v;
            top = v > top || v != v ? v : top;  // NaN stays
            n++;
        }
    dst[(long long)pixel * w.dst_stride + w.dst_offset + c] = maximum ? top : sum / n;
}
EXPORT(unmask_pool)
