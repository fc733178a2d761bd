// The second half of a gated product: what a product left times other numbers.
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
