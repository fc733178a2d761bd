// Pool takes the mean or the maximum of windows. A block has a pixel.
#include "windows.cuh"

extern "C" __global__ void __launch_bounds__(256) unmask_pool(float* dst, const float* x, const Windows* windows, int maximum) {
    const Windows w = *windows;
    const Pixel p = pixel_at(w, blockIdx.x);
    dst += (long long)blockIdx.x * w.dst_stride + w.dst_offset;
    for (int c = threadIdx.x; c < w.in; c += blockDim.x) {
        int n = 0;
        float sum = 0.0f, top = -INFINITE;
        for (int kh = 0; kh < w.kh; kh++)
            for (int kw = 0; kw < w.kw; kw++) {
                int from = under(w, p, kh, kw);
                if (from < 0) continue;
                float v = x[(long long)from * w.in + c];
                sum += v;
                top = v > top || v != v ? v : top;  // NaN stays
                n++;
            }
        dst[c] = maximum ? top : sum / n;
    }
}
EXPORT(unmask_pool)
