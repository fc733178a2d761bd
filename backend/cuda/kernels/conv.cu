// Conv: products of windows, which are gathered from images while the tiles of linear.cu load their rows, and never written to memory; but where
// a window's rows cannot be loaded in pieces of 16 bytes, and in int8, whose scale is the window's, they are.
#include "gemm.cuh"
#include "windows.cuh"

// ---- the input: its affine map and swish, once a number instead of once a tap, and twice as wide and high where it is doubled ----

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

// Block (part, image). A thread writes 4 numbers beside each other, or one.
template <class To>
__device__ __forceinline__ void conv_input(To* to, const float* x, const float* scale, const float* shift, int height, int width, int channels, int up, int swish) {
    const int image = height * width * channels, written = up * up * image, map = blockIdx.y * channels;
    const int i = (blockIdx.x * 256 + threadIdx.x) * (channels % 4 == 0 ? 4 : 1);
    if (i >= written) return;
    const int pixel = i / channels, c = i - pixel * channels;
    int from = i;
    if (up == 2) {
        int y = pixel / (2 * width);
        from = ((y >> 1) * width + ((pixel - y * 2 * width) >> 1)) * channels + c;
    }
    x += (long long)blockIdx.y * image + from;
    to += (long long)blockIdx.y * written + i;
    if (channels % 4 == 0) {
        float4 v = *reinterpret_cast<const float4*>(x), a = make_float4(1.0f, 1.0f, 1.0f, 1.0f), b = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (scale) a = *reinterpret_cast<const float4*>(scale + map + c), b = *reinterpret_cast<const float4*>(shift + map + c);
        convert(to, make_float4(mapped(v.x, a.x, b.x, swish), mapped(v.y, a.y, b.y, swish), mapped(v.z, a.z, b.z, swish), mapped(v.w, a.w, b.w, swish)));
    } else {
        convert(to, mapped(*x, scale ? scale[map + c] : 1.0f, scale ? shift[map + c] : 0.0f, swish));
    }
}

#define CONV_INPUT(name, To)                                                                                                                       \
    extern "C" __global__ void __launch_bounds__(256)                                                                                              \
        name(To* to, const float* x, const float* scale, const float* shift, int height, int width, int channels, int up, int swish) {             \
        conv_input<To>(to, x, scale, shift, height, width, channels, up, swish);                                                                   \
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

// Walk is the way of a thread along the depth of the windows of some pixels, `apart` from one to the next. What is not the same for all of them
// is two numbers: where the window's corner is in the image, y in the upper half, and in x.
template <int count>
struct Walk {
    int height, width, in, kh, kw;
    int channel, y, x;  // of the window's number where the thread is
    int corner[count];
    unsigned at[count];

    __device__ __forceinline__ Walk(const Windows& w, int first, int apart, int number)
        : height(w.height), width(w.width), in(w.in), kh(w.kh), kw(w.kw), channel(number % w.in), y(number / w.in / w.kw), x(number / w.in % w.kw) {
#pragma unroll
        for (int i = 0; i < count; i++) {
            int pixel = first + i * apart;
            Pixel p = pixel_at(w, pixel);
            if (pixel >= w.pixels()) p.corner = -32768 * 65536;  // above all images
            corner[i] = p.corner;
            at[i] = ((p.row + (p.corner >> 16)) * w.width + (short)p.corner) * (unsigned)w.in;
        }
    }
    // number is which of x's numbers the window of pixel i has here, from the thread's own; beyond the image it has none.
    __device__ __forceinline__ unsigned number(int i) const { return at[i] + (unsigned)((y * width + x) * in + channel); }
    __device__ __forceinline__ bool has(int i) const {
        return y < kh && (unsigned)((corner[i] >> 16) + y) < (unsigned)height && (unsigned)((short)corner[i] + x) < (unsigned)width;
    }
    __device__ __forceinline__ void advance(int step) {
        channel += step;
        while (channel >= in) {
            channel -= in;
            if (++x == kw) x = 0, y++;
        }
    }
};

// WindowRows loads windows of bfloat16 images, whose channels are a multiple of 8. A thread has the same 8 numbers of each row and step.
template <class T>
struct WindowRows {
    static constexpr int each = T::depth / 16, count = T::rows * each / T::threads, apart = T::threads / each;
    static_assert(T::threads % each == 0 && apart % 8 == 0, "a thread's numbers are the same in all its rows, and stand alike");
    const unsigned short* x;
    Walk<count> walk;
    int place;

    __device__ __forceinline__ WindowRows(const Windows& w, const unsigned short* x, int first)
        : x(x), walk(w, first + int(threadIdx.x) / each, apart, int(threadIdx.x) % each * 8),
          place(swizzled<T::depth>(int(threadIdx.x) / each, int(threadIdx.x) % each)) {}

    __device__ __forceinline__ void load(unsigned char* to, int) {
#pragma unroll
        for (int i = 0; i < count; i++) {
            bool has = walk.has(i);
            copy_async(to + place + i * (apart * T::depth), x + (has ? walk.number(i) : 0), has);
        }
        walk.advance(T::depth / 2);
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
    Walk<count> walk;
    float4 v[count];

    __device__ __forceinline__ Fetched(const WindowMatrix<quads>& m, int first)
        : walk(m.w, first + int(threadIdx.x) / each, T::threads / each, int(threadIdx.x) % each * 4) {}

    // read is called for one step after another.
    __device__ __forceinline__ void read(const WindowMatrix<quads>& m, int, int) {
        if constexpr (quads) {
#pragma unroll
            for (int n = 0; n < count; n++)
                v[n] = walk.has(n) ? *reinterpret_cast<const float4*>(m.x + walk.number(n)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            walk.advance(T::depth);
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) {
#pragma unroll
                for (int n = 0; n < count; n++) reinterpret_cast<float*>(&v[n])[j] = walk.has(n) ? m.x[walk.number(n)] : 0.0f;
                walk.advance(j < 3 ? 1 : T::depth - 3);
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
CONV(unmask_conv_bf16_medium, Medium)
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
