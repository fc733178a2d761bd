// Windows of images, which pooling and convolutions read.
#pragma once

#include "common.cuh"

// Windows is a ConvShape: x [batch, height, width, in], result [batch, out_height, out_width, out], its pixels dst_stride numbers apart of which the
// first is dst_offset. up is 2 where x is doubled first.
struct Windows {
    int batch, height, width, in, out, out_height, out_width, kh, kw, stride, pad_h, pad_w, up, dst_stride, dst_offset;

    __device__ __forceinline__ int pixels() const { return batch * out_height * out_width; }
};

// Pixel is one of the result's: the image's first row among all rows, and the corner of its window, y in the upper half.
struct Pixel { int row, corner; };

__device__ __forceinline__ Pixel pixel_at(const Windows& w, int index) {
    int row = index / w.out_width, image = row / w.out_height;
    int y = (row - image * w.out_height) * w.stride - w.pad_h, x = (index - row * w.out_width) * w.stride - w.pad_w;
    return {image * w.height, y * 65536 + (x & 0xffff)};
}

// under is the index of x's pixel under a tap of p's window, -1 outside the image.
__device__ __forceinline__ int under(const Windows& w, Pixel p, int kh, int kw) {
    int y = (p.corner >> 16) + kh, x = (short)p.corner + kw;
    if ((unsigned)y >= (unsigned)(w.up * w.height) || (unsigned)x >= (unsigned)(w.up * w.width)) return -1;
    return (p.row + (y >> (w.up - 1))) * w.width + (x >> (w.up - 1));
}
