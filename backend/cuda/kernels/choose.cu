// Choosing on the device: noise, ranking within a sequence and the noise of the tokens, as package samplers does on the host.
#include "common.cuh"

namespace choose {

// ---- Philox4x32-10 (Salmon et al. 2011), as internal/philox ----

enum Use { order_use, token_use, reorder_use };

struct Noise {
    unsigned seed_low, seed_high, step;

    // uniform is in (0, 1): 52 bits and a half.
    __device__ __forceinline__ double uniform(unsigned position, unsigned sequence, unsigned use) const {
        unsigned c[4] = {position, step, sequence, use}, k0 = seed_low, k1 = seed_high;
#pragma unroll
        for (int i = 0; i < 10; i++) {
            unsigned high0 = __umulhi(0xD2511F53u, c[0]), low0 = 0xD2511F53u * c[0];
            unsigned high1 = __umulhi(0xCD9E8D57u, c[2]), low1 = 0xCD9E8D57u * c[2];
            c[0] = high1 ^ c[1] ^ k0, c[1] = low1, c[2] = high0 ^ c[3] ^ k1, c[3] = low0;
            k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
        }
        unsigned long long bits = (unsigned long long)c[0] << 32 | c[1];
        return ((double)(bits >> 12) + 0.5) * (1.0 / 4503599627370496.0);
    }
};

__device__ __forceinline__ double gumbel(double u) { return -log(-log(u)); }

// Group as backend.Candidates, and where its results begin.
struct Group { int row, rows, sequence, first, count, draw, chosen_at, drawn_at; };

enum Measure { by_order, by_noise, by_moment, by_draw };

// Ranked is a candidate with its score, in shared memory.
struct Ranked { double* score; int* index; };

__device__ __forceinline__ bool before(double a, int i, double b, int j) { return a > b || a == b && i < j; }

// sort puts n candidates, a power of two, into the order of `before` (bitonic: Batcher 1968).
__device__ __forceinline__ void sort(Ranked r, int n) {
    for (int size = 2; size <= n; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int t = threadIdx.x; t < n / 2; t += blockDim.x) {
                int i = 2 * t - (t & (step - 1)), j = i + step;
                bool turned = (i & size) != 0;
                double a = r.score[i], b = r.score[j];
                int x = r.index[i], y = r.index[j];
                if (before(b, y, a, x) != turned) r.score[i] = b, r.score[j] = a, r.index[i] = y, r.index[j] = x;
            }
        }
    __syncthreads();
}

}  // namespace choose

// A block has a group. The noise of the tokens of all its candidates, for measures that need them.
extern "C" __global__ void unmask_choose_uniforms(double* uniform, const int* groups, const int* position, unsigned seed_low, unsigned seed_high, unsigned step) {
    choose::Group g = ((const choose::Group*)groups)[blockIdx.x];
    for (int i = threadIdx.x; i < g.rows; i += blockDim.x)
        uniform[g.row + i] = choose::Noise{seed_low, seed_high, step}.uniform(position[g.row + i], g.sequence, choose::token_use);
}
EXPORT(unmask_choose_uniforms)

// A block has a group of at most `size` candidates, a power of two. It writes the chosen, of those to be drawn the noise of their tokens, and the lowest
// candidate whose log_sum is not finite (rows for none). Where tokens were drawn before, it hands over those of the chosen.
extern "C" __global__ void unmask_choose(int* chosen, int* drawn, double* uniform, int* undefined, const int* groups, const int* position, const int* order,
                                         const double* log_moment, const double* log_sum, const int* all_tokens, const double* all_log_p, int* token,
                                         double* log_p, int size, int rows, int by_first, int by_others, double noise, unsigned seed_low, unsigned seed_high,
                                         unsigned step) {
    using namespace choose;
    SHARED(candidates);
    Ranked r = {(double*)candidates, (int*)(candidates + 8 * size)};
    unsigned char* taken = candidates + 12 * size;
    __shared__ int lowest;
    const Group g = ((const Group*)groups)[blockIdx.x];
    const Noise stream = {seed_low, seed_high, step};
    if (threadIdx.x == 0) lowest = rows;
    for (int i = threadIdx.x; i < size; i += blockDim.x) taken[i] = i >= g.rows;
    __syncthreads();
    for (int i = threadIdx.x; log_sum && i < g.rows; i += blockDim.x) {
        double v = log_sum[g.row + i];
        if (!(v - v == 0)) atomicMin(&lowest, g.row + i);
    }
    for (int part = 0; part < 2; part++) {
        const int from = part ? g.first : 0, to = part ? g.count : g.first, by = part ? by_others : by_first;
        if (from >= to) continue;
        for (int i = threadIdx.x; i < size; i += blockDim.x) {
            double score = -(double)INFINITE;
            int index = i + size;  // behind all that may be chosen
            if (!taken[i]) {
                const int row = g.row + i, at = position[row];
                index = i;
                if (by == by_order) score = -(double)order[at];
                else score = stream.uniform(at, g.sequence, part ? reorder_use : order_use);
                if (by == by_moment) score = log_moment[row] + gumbel(score);
                if (by == by_draw) score = all_log_p[row] + noise * gumbel(score);
                if (score != score) score = -(double)INFINITE;  // one without a distribution
            }
            r.score[i] = score;
            r.index[i] = index;
        }
        sort(r, size);
        for (int j = threadIdx.x; j < to - from; j += blockDim.x) {
            int i = r.index[j];
            taken[i] = 1;
            chosen[g.chosen_at + from + j] = g.row + i;
        }
        __syncthreads();
    }
    __syncthreads();  // where nothing was ranked
    if (threadIdx.x == 0) undefined[blockIdx.x] = lowest;
    for (int j = threadIdx.x; j < g.draw; j += blockDim.x) {
        const int row = chosen[g.chosen_at + j], to = g.drawn_at + j;
        if (all_tokens) {
            token[to] = all_tokens[row];
            log_p[to] = all_log_p[row];
        } else {
            drawn[to] = row;
            uniform[to] = stream.uniform(position[row], g.sequence, token_use);
        }
    }
}
EXPORT(unmask_choose)
