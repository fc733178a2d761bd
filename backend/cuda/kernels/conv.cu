// Conv: products of windows, which are gathered from images while the tiles of linear.cu load their rows, and never written to memory; but where
// a window's rows cannot be loaded in pieces of 16 bytes, and in int8, whose scale is the window's, they are.
#include "gemm.cuh"
#include "windows.cuh"

// ---- the input: its affine map and swish, once a number instead of once a tap ----

__device__ __forceinline__ float mapped(float x, float scale, float shift, int swish) {
    float y = fmaf(x, scale, shift);
    return swish ? activate(y, SiLU) : y;
}

// convert is x as float32, or rounded to bfloat16.
__device__ __forceinline__ void convert(float* to, float x) { *to = x; }
__device__ __forceinline__ void convert(unsigned short* to, float x) { *to = bf16(x); }
__device__ __forceinline__ void convert(float* to, float4 x) { *reinterpret_cast<float4*>(to) = x; }
__device__ __forceinline__ void convert(unsigned short* to, float4 x) {
    *reinterpret_cast<uint2*>(to) = make_uint2(bf16_pair(x.x, x.y), bf16_pair(x.z, x.w));
}

// Block (part, image); image is pixels*channels numbers.
template <class To>
__device__ __forceinline__ void conv_input(To* to, const float* x, const float* scale, const float* shift, int image, int channels, int swish) {
    const long long first = (long long)blockIdx.y * image;
    const int map = blockIdx.y * channels;
    int i = blockIdx.x * 256 + threadIdx.x;
    if (channels % 4 == 0) {
        i *= 4;
        if (i >= image) return;
        float4 v = *reinterpret_cast<const float4*>(x + first + i), a = make_float4(1.0f, 1.0f, 1.0f, 1.0f), b = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        int c = map + i % channels;
        if (scale) a = *reinterpret_cast<const float4*>(scale + c), b = *reinterpret_cast<const float4*>(shift + c);
        v = make_float4(mapped(v.x, a.x, b.x, swish), mapped(v.y, a.y, b.y, swish), mapped(v.z, a.z, b.z, swish), mapped(v.w, a.w, b.w, swish));
        convert(to + first + i, v);
    } else if (i < image) {
        int c = map + i % channels;
        convert(to + first + i, mapped(x[first + i], scale ? scale[c] : 1.0f, scale ? shift[c] : 0.0f, swish));
    }
}

#define CONV_INPUT(name, To)                                                                                                                       \
    extern "C" __global__ void __launch_bounds__(256)                                                                                              \
        name(To* to, const float* x, const float* scale, const float* shift, int image, int channels, int swish) {                                 \
        conv_input<To>(to, x, scale, shift, image, channels, swish);                                                                               \
    }                                                                                                                                              \
    EXPORT(name)
CONV_INPUT(unmask_conv_input_f32, float)
CONV_INPUT(unmask_conv_input_bf16, unsigned short)

// unmask_windows writes the windows of pixels first.. as rows [pixels, kh*kw*in]. Blocks of 256 threads have as many numbers of one window.
extern "C" __global__ void __launch_bounds__(256) unmask_windows(float* to, const float* x, const Windows* windows, int first) {
    Windows w = *windows;
    int width = w.kh * w.kw * w.in, k = blockIdx.y * 256 + threadIdx.x;
    if (k >= width) return;
    int tap = k / w.in, from = under(w, pixel_at(w, first + blockIdx.x), tap / w.kw, tap % w.kw);
    to[(long long)blockIdx.x * width + k] = from < 0 ? 0.0f : x[(long long)from * w.in + k % w.in];
}
EXPORT(unmask_windows)

// ---- windows as a factor of a product ----

// Tap walks along the depth of a window, steps of `step` numbers from a first one, without a division.
struct Tap {
    int channel, y, x;

    __device__ __forceinline__ Tap(const Windows& w, int k) : channel(k % w.in), y(k / w.in / w.kw), x(k / w.in % w.kw) {}
    __device__ __forceinline__ void advance(const Windows& w, int step) {
        channel += step;
        while (channel >= w.in) {
            channel -= w.in;
            if (++x == w.kw) x = 0, y++;
        }
    }
};

// tap_at is under for the tap where a thread is; beyond the last tap there is nothing.
__device__ __forceinline__ int tap_at(const Windows& w, Pixel p, const Tap& t) { return t.y < w.kh ? under(w, p, t.y, t.x) : -1; }

// pixel_or_none is a pixel whose window is outside the image if there is none of the number.
__device__ __forceinline__ Pixel pixel_or_none(const Windows& w, int index) {
    if (index < w.pixels()) return pixel_at(w, index);
    return {0, -32768 * 65536};
}

// WindowRows loads windows of bfloat16 images, whose channels are a multiple of 8. A thread has the same rows and the same 8 numbers of each step.
template <class T>
struct WindowRows {
    static constexpr int each = T::depth / 16, count = T::rows * each / T::threads;
    const Windows& w;
    const unsigned short* x;
    Pixel pixel[count];
    Tap tap;

    __device__ __forceinline__ WindowRows(const Windows& w, const unsigned short* x, int first) : w(w), x(x), tap(w, int(threadIdx.x) % each * 8) {
        static_assert(T::threads % each == 0, "a thread's numbers are the same in all its rows");
#pragma unroll
        for (int i = 0; i < count; i++) pixel[i] = pixel_or_none(w, first + (i * T::threads + int(threadIdx.x)) / each);
    }
    __device__ __forceinline__ void load(unsigned char* to, int) {
#pragma unroll
        for (int i = 0; i < count; i++) {
            int at = i * T::threads + threadIdx.x, from = tap_at(w, pixel[i], tap);
            copy_async(to + swizzled<T::depth>(at / each, at % each), x + (from < 0 ? 0 : (long long)from * w.in + tap.channel), from >= 0);
        }
        tap.advance(w, T::depth / 2);
    }
};

// WindowMatrix are windows of float32 images for multiply_plain. With quads the channels are a multiple of 4.
template <bool quads>
struct WindowMatrix {
    const Windows& w;
    const float* x;
    int depth;
};

template <class T, int rows, int stride, bool quads>
struct Fetched<T, rows, stride, WindowMatrix<quads>> {
    static constexpr int each = T::depth / 4, count = rows * each / T::threads;
    static_assert(T::threads % each == 0, "a thread's numbers are the same in all its rows");
    Pixel pixel[count];
    Tap tap;
    float4 v[count];

    __device__ __forceinline__ Fetched(const WindowMatrix<quads>& m, int first) : tap(m.w, int(threadIdx.x) % each * 4) {
#pragma unroll
        for (int n = 0; n < count; n++) pixel[n] = pixel_or_none(m.w, first + (n * T::threads + int(threadIdx.x)) / each);
    }
    // read is called for one step after another.
    __device__ __forceinline__ void read(const WindowMatrix<quads>& m, int, int) {
        if constexpr (quads) {
#pragma unroll
            for (int n = 0; n < count; n++) {
                int from = tap_at(m.w, pixel[n], tap);
                v[n] = from < 0 ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : *reinterpret_cast<const float4*>(m.x + (long long)from * m.w.in + tap.channel);
            }
            tap.advance(m.w, T::depth);
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) {
#pragma unroll
                for (int n = 0; n < count; n++) {
                    int from = tap_at(m.w, pixel[n], tap);
                    reinterpret_cast<float*>(&v[n])[j] = from < 0 ? 0.0f : m.x[(long long)from * m.w.in + tap.channel];
                }
                tap.advance(m.w, j < 3 ? 1 : T::depth - 3);
            }
        }
    }
    __device__ __forceinline__ void write(const WindowMatrix<quads>&, float* stage) const {
#pragma unroll
        for (int n = 0; n < count; n++) {
            int at = n * T::threads + threadIdx.x, i = at / each, k = at % each * 4;
            stage[(k + 0) * stride + i] = v[n].x;
            stage[(k + 1) * stride + i] = v[n].y;
            stage[(k + 2) * stride + i] = v[n].z;
            stage[(k + 3) * stride + i] = v[n].w;
        }
    }
};

#define CONV(name, T)                                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(T::threads, 2)                                                                                        \
        name(float* dst, const unsigned short* x, const unsigned char* weights, const float* bias, const Windows* windows, int stride, int act, int add) { \
        const Windows w = *windows;                                                                                                                    \
        auto x_from = [&](int row) { return WindowRows<T>(w, x, row); };                                                                               \
        linear<BF16, T>(Epilogue{dst + w.dst_offset, bias, nullptr, nullptr, w.pixels(), w.out, w.dst_stride, act, add, 1.0f}, x_from, weights, stride); \
    }                                                                                                                                                  \
    EXPORT(name)
CONV(unmask_conv_bf16_large, Medium)
CONV(unmask_conv_bf16_small, Small)

#define CONV_PLAIN(name, T, quads, blocks)                                                                                                             \
    extern "C" __global__ void __launch_bounds__(T::threads, blocks)                                                                                   \
        name(float* dst, const float* x, const float* weights, const float* bias, const Windows* windows, int stride, int act, int add) {              \
        const Windows w = *windows;                                                                                                                    \
        const int depth = w.kh * w.kw * w.in;                                                                                                          \
        linear_plain<T>(Epilogue{dst + w.dst_offset, bias, nullptr, nullptr, w.pixels(), w.out, w.dst_stride, act, add, 1.0f},                         \
                        WindowMatrix<quads>{w, x, depth}, Strided{weights, stride, 1, w.out, depth});                                                  \
    }                                                                                                                                                  \
    EXPORT(name)
CONV_PLAIN(unmask_conv_f32_large, PlainLarge, true, 1)  // with two it would spill registers
CONV_PLAIN(unmask_conv_f32_small, PlainSmall, true, 2)
CONV_PLAIN(unmask_conv_f32_any, PlainSmall, false, 2)
