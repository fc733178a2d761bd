// The CUDA language, as far as the kernels use it, for a C++17 compiler: with this header the same sources run on a
// processor, slowly but truly, so that every kernel can be tested where there is no GPU.
//
// The blocks of a launch run one after another. The threads of a block are fibers on one thread of the operating system:
// one runs until it waits at a barrier or for its warp, then the next. A fiber whose kernel returned goes on with
// the block's next thread, so kernels that never wait cost no switch at all.
//
// Mistakes are made to show. Every other block runs its threads from the last to the first, so a barrier that is missing
// hides in one half at most. Dynamic shared memory begins full of NaN and ends at a page that nobody can touch. A copy in the
// background arrives when it is waited for. Waiting for one who never comes, shuffles with a part of a warp and
// warps that diverge end the program with one line that says so.
//
// Compile with -std=c++17 -O2 -fno-strict-aliasing -ffp-contract=off, and -march=native for fused multiply-adds.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <type_traits>
#include <utility>
#include <vector>

#ifndef __x86_64__
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static  // blocks run one after another
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define EMULATE_VECTOR(T, name)                                                                          \
    struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                                   \
    struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { T x, y, z, w; };                   \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                           \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATE_VECTOR(float, float)
EMULATE_VECTOR(double, double)
EMULATE_VECTOR(int, int)
EMULATE_VECTOR(unsigned, uint)
EMULATE_VECTOR(signed char, char)
EMULATE_VECTOR(unsigned char, uchar)
EMULATE_VECTOR(short, short)
EMULATE_VECTOR(unsigned short, ushort)
#undef EMULATE_VECTOR

namespace emulate {

[[noreturn]] inline void fail(const char* what);

// ---- fibers ----

struct Copy { void* to; const void* from; unsigned bytes, group; };
struct Product { void* d; const unsigned char *a, *b; unsigned set; void (*compute)(const Product&); };

struct Thread {
    enum State { fresh, ready, waits_for_warp, waits_for_block, done } state;
    uint3 index;
    unsigned number;
    void* stack;  // where it goes on
    std::vector<Copy> copies;  // cp.async under way
    std::vector<Product> products;  // wgmma under way
    unsigned group, set;
};

struct Warp {
    unsigned arrived;
    const void* what;  // which collective the lanes wait in
    alignas(16) char in[32 * 64], out[32 * 64];
};

constexpr unsigned max_threads = 1024;
constexpr size_t stack_bytes = 128 << 10, max_shared = 227 << 10;

struct Block {
    Thread orders[2][max_threads], *threads;  // from the first to the last, or back; those of the running block
    Warp warps[max_threads / 32];
    unsigned count, next, left, stacks, arrived, votes;  // next: the first fresh thread; stacks: how many are taken
    int result;                                          // of the last vote
    void (*body)(void*, void**);
    void *function, **params;
    const char* name;
    void* launcher;  // the launching program's own stack
    char* memory;    // of all stacks
    uint3 at;
    dim3 size, grid;
};

inline Block block;
inline Thread* current = nullptr;
inline unsigned char* shared;  // of the running block

inline void fail(const char* what) {
    uint3 t = current ? current->index : uint3{};
    fprintf(stderr, "emulate: %s, block (%u,%u,%u) thread (%u,%u,%u): %s\n", block.name, block.at.x, block.at.y,
            block.at.z, t.x, t.y, t.z, what);
    abort();
}

void fiber();  // what a stack runs

#ifdef __x86_64__
extern "C" __attribute__((visibility("hidden"))) void emulate_switch(void** from, void* to);
asm(R"(
    .text
    .type emulate_switch, @function
emulate_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
)");

// new_stack lays out what emulate_switch takes off: six registers, and fiber as the address to return to.
inline void* new_stack(char* low) {
    void** top = reinterpret_cast<void**>(low + stack_bytes) - 8;
    memset(top, 0, 8 * sizeof(void*));
    top[6] = reinterpret_cast<void*>(&fiber);
    return top;
}
#else
inline ucontext_t contexts[max_threads + 1];

inline void* new_stack(char* low) {
    ucontext_t* c = &contexts[(low - block.memory) / stack_bytes];
    getcontext(c);
    c->uc_stack.ss_sp = low;
    c->uc_stack.ss_size = stack_bytes;
    makecontext(c, &fiber, 0);
    return c;
}

inline void emulate_switch(void** from, void* to) {
    // A fiber is known by its context. The launcher has the last one.
    static ucontext_t* running = &contexts[max_threads];
    ucontext_t* self = running;
    *from = self;
    running = static_cast<ucontext_t*>(to);
    swapcontext(self, running);
}
#endif

inline void resume(void** from, Thread* t) {
    current = t;
    if (t->state == Thread::fresh) {
        if (t != &block.threads[block.next]) fail("threads started out of order");
        block.next++;
        t->stack = new_stack(block.memory + stack_bytes * block.stacks++);
        t->state = Thread::ready;
    }
    emulate_switch(from, t->stack);
}

inline bool runs(const Thread& t) { return t.state == Thread::fresh || t.state == Thread::ready; }

// rest gives way to the next thread that can run: of the warp, or of the block.
inline void rest(Thread::State why) {
    Thread* self = current;
    self->state = why;
    unsigned at = unsigned(self - block.threads), first = 0, n = block.count;
    if (why == Thread::waits_for_warp) first = at & ~31u, n = 32;
    for (unsigned i = 1; i < n; i++) {
        Thread* t = &block.threads[first + (at - first + i) % n];
        if (runs(*t)) {
            resume(&self->stack, t);
            return;
        }
    }
    fail(why == Thread::waits_for_warp ? "waits for lanes that left or are at a barrier"
                                       : "waits at a barrier for threads that left or wait for their warp");
}

inline void fiber() {
    Block& b = block;
    for (;;) {
        b.body(b.function, b.params);
        current->state = Thread::done;
        if (!current->products.empty()) fail("left before its products are done");
        current->copies.clear();
        b.left--;
        if (b.next < b.count) {
            current = &b.threads[b.next++];
            current->state = Thread::ready;
            continue;
        }
        void* gone;
        if (b.left == 0) {
            current = nullptr;
            emulate_switch(&gone, b.launcher);
        }
        for (unsigned i = 0; i < b.count; i++)
            if (runs(b.threads[i])) resume(&gone, &b.threads[i]);
        fail("left while others wait for it");
    }
}

// barrier waits for all threads of the block and adds up what each says.
inline int barrier(int vote) {
    Block& b = block;
    b.votes += vote;
    if (++b.arrived < b.count) {
        rest(Thread::waits_for_block);
    } else {
        b.arrived = 0;
        b.result = int(b.votes);
        b.votes = 0;
        for (unsigned i = 0; i < b.count; i++)
            if (b.threads[i].state == Thread::waits_for_block) b.threads[i].state = Thread::ready;
    }
    return b.result;
}

// together waits for all lanes of the warp. The last to come computes the results of all from the arguments of all.
template <class Out, class In, class F>
inline Out together(const In& mine, F compute) {
    static_assert(sizeof(In) <= 64 && sizeof(Out) <= 64, "a slot of a warp is 64 bytes");
    static const char what = 0;  // its address tells one collective from another
    Warp& w = block.warps[current->number / 32];
    unsigned lane = current->number % 32;
    if (block.count % 32) fail("a collective of a warp in a block of broken warps");
    if (w.arrived && w.what != &what) fail("lanes of a warp are in different collectives");
    w.what = &what;
    memcpy(w.in + lane * sizeof(In), &mine, sizeof(In));
    if (++w.arrived < 32) {
        rest(Thread::waits_for_warp);
    } else {
        w.arrived = 0;
        compute(reinterpret_cast<const In*>(w.in), reinterpret_cast<Out*>(w.out));
        Thread* first = block.threads + ((current - block.threads) & ~31);
        for (Thread* t = first; t < first + 32; t++)
            if (t->state == Thread::waits_for_warp) t->state = Thread::ready;
    }
    Out out;
    memcpy(&out, w.out + lane * sizeof(Out), sizeof(Out));
    return out;
}

// ---- kernels by name ----

struct Kernel {
    const char* name;
    void* function;
    void (*invoke)(void* function, void** params);
    std::vector<size_t> sizes;  // of the parameters
};

inline std::vector<Kernel>& kernels() {
    static std::vector<Kernel> all;
    return all;
}

inline const Kernel* find(const char* name) {
    for (const Kernel& k : kernels())
        if (!strcmp(k.name, name)) return &k;
    return nullptr;
}

template <class... P>
struct Call {
    template <size_t... I>
    static void apply(void (*f)(P...), void** params, std::index_sequence<I...>) {
        f(*static_cast<std::remove_cv_t<P>*>(params[I])...);
    }
    static void invoke(void* f, void** params) {
        apply(reinterpret_cast<void (*)(P...)>(f), params, std::index_sequence_for<P...>());
    }
};

struct Registration {
    template <class... P>
    Registration(const char* name, void (*f)(P...)) {
        kernels().push_back({name, reinterpret_cast<void*>(f), &Call<P...>::invoke, {sizeof(P)...}});
    }
};

inline char* reserve(size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) fail("no memory");
    return static_cast<char*>(p);
}

// shared_end is where shared memory ends.
inline unsigned char* shared_end() {
    static unsigned char* end = nullptr;
    if (!end) {
        size_t page = size_t(sysconf(_SC_PAGESIZE)), bytes = (max_shared + page - 1) / page * page;
        end = reinterpret_cast<unsigned char*>(reserve(bytes + page)) + bytes;
        mprotect(end, page, PROT_NONE);
    }
    return end;
}

// launch runs a kernel over a grid, as cuLaunchKernel does.
inline void launch(const Kernel& k, dim3 grid, dim3 size, size_t shared_bytes, void** params) {
    static unsigned order = 0;
    Block& b = block;
    b.name = k.name, b.function = k.function, b.body = k.invoke, b.params = params;
    b.grid = grid, b.size = size, b.count = size.x * size.y * size.z;
    b.at = {};
    if (b.count == 0 || b.count > max_threads || shared_bytes > max_shared) fail("too many threads or too much shared memory");
    if (!b.memory) b.memory = reserve(stack_bytes * max_threads);
    shared = shared_end() - (shared_bytes + 15) / 16 * 16;
    for (unsigned i = 0; i < b.count; i++)
        for (Thread* t : {&b.orders[0][i], &b.orders[1][b.count - 1 - i]}) {
            t->number = i;
            t->index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
        }
    for (Warp& w : b.warps) w.arrived = 0;
    for (b.at.z = 0; b.at.z < grid.z; b.at.z++)
        for (b.at.y = 0; b.at.y < grid.y; b.at.y++)
            for (b.at.x = 0; b.at.x < grid.x; b.at.x++) {
                memset(shared, 0xff, shared_bytes);
                b.threads = b.orders[order++ % 2];
                for (unsigned i = 0; i < b.count; i++) b.threads[i].state = Thread::fresh, b.threads[i].group = b.threads[i].set = 0;
                b.next = b.stacks = b.arrived = b.votes = 0;
                b.left = b.count;
                resume(&b.launcher, &b.threads[0]);
            }
}

}  // namespace emulate

#define threadIdx (emulate::current->index)
#define blockIdx (emulate::block.at)
#define blockDim (emulate::block.size)
#define gridDim (emulate::block.grid)

// ---- barriers and warps ----

inline void __syncthreads() { emulate::barrier(0); }
inline int __syncthreads_count(int p) { return emulate::barrier(p != 0); }
inline int __syncthreads_or(int p) { return emulate::barrier(p != 0) != 0; }
inline int __syncthreads_and(int p) { return emulate::barrier(p == 0) == 0; }
inline void __threadfence() {}
inline void __threadfence_block() {}

namespace emulate {
inline void whole(unsigned mask) {
    if (mask != 0xffffffffu) fail("a collective of a part of a warp");
}
template <class T> struct Shuffle { T value; int lane; };
template <class T> inline T shuffle(unsigned mask, T v, int from) {
    whole(mask);
    return together<T>(Shuffle<T>{v, from}, [](const Shuffle<T>* in, T* out) {
        for (int i = 0; i < 32; i++) out[i] = in[in[i].lane & 31].value;
    });
}
inline int lane() { return int(current->number % 32); }
}  // namespace emulate

inline void __syncwarp(unsigned mask = 0xffffffffu) {
    emulate::whole(mask);
    emulate::together<int>(0, [](const int*, int*) {});
}
template <class T> inline T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
    int l = emulate::lane();
    return emulate::shuffle(mask, v, (l & ~(width - 1)) | (from & (width - 1)));
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32) {
    int l = emulate::lane(), from = l ^ bits;
    return emulate::shuffle(mask, v, from / width > l / width ? l : from);
}
template <class T> inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
    int l = emulate::lane(), from = l + int(by);
    return emulate::shuffle(mask, v, from / width == l / width ? from : l);
}
template <class T> inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
    int l = emulate::lane(), from = l - int(by);
    return emulate::shuffle(mask, v, from >= (l & ~(width - 1)) ? from : l);
}
inline unsigned __ballot_sync(unsigned mask, int p) {
    emulate::whole(mask);
    return emulate::together<unsigned>(p, [](const int* in, unsigned* out) {
        unsigned all = 0;
        for (int i = 0; i < 32; i++) all |= unsigned(in[i] != 0) << i;
        for (int i = 0; i < 32; i++) out[i] = all;
    });
}
inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, p) == 0xffffffffu; }

// ---- atomics: fibers do not interrupt one another ----

template <class T> inline T atomicAdd(T* p, T v) { T old = *p; *p = old + v; return old; }
template <class T> inline T atomicMax(T* p, T v) { T old = *p; *p = old > v ? old : v; return old; }
template <class T> inline T atomicMin(T* p, T v) { T old = *p; *p = old < v ? old : v; return old; }
template <class T> inline T atomicOr(T* p, T v) { T old = *p; *p = old | v; return old; }
template <class T> inline T atomicExch(T* p, T v) { T old = *p; *p = v; return old; }
template <class T> inline T atomicCAS(T* p, T was, T v) { T old = *p; if (old == was) *p = v; return old; }

// ---- numbers ----

template <class T> inline T __ldg(const T* p) { return *p; }

// of a number and a NaN, the number; inlined, as tests spent a quarter of their time in the library's
inline float larger(float a, float b) { return a > b || b != b ? a : b; }
#define fmaxf larger
#define EMULATE_MINMAX(T)                              \
    inline T min(T a, T b) { return b < a ? b : a; }   \
    inline T max(T a, T b) { return a < b ? b : a; }
EMULATE_MINMAX(int)
EMULATE_MINMAX(unsigned)
EMULATE_MINMAX(long)
EMULATE_MINMAX(unsigned long)
EMULATE_MINMAX(long long)
EMULATE_MINMAX(unsigned long long)
#undef EMULATE_MINMAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

namespace emulate {
template <class To, class From> inline To bits(From v) {
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    To t;
    memcpy(&t, &v, sizeof t);
    return t;
}
}  // namespace emulate

inline float __int_as_float(int v) { return emulate::bits<float>(v); }
inline int __float_as_int(float v) { return emulate::bits<int>(v); }
inline float __uint_as_float(unsigned v) { return emulate::bits<float>(v); }
inline unsigned __float_as_uint(float v) { return emulate::bits<unsigned>(v); }
inline long long __double_as_longlong(double v) { return emulate::bits<long long>(v); }
inline double __longlong_as_double(long long v) { return emulate::bits<double>(v); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fadd_rn(float a, float b) { volatile float r = a + b; return r; }
inline float __fsub_rn(float a, float b) { volatile float r = a - b; return r; }
inline float __fmul_rn(float a, float b) { volatile float r = a * b; return r; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __dadd_rn(double a, double b) { volatile double r = a + b; return r; }
inline double __dmul_rn(double a, double b) { volatile double r = a * b; return r; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
inline double rsqrt(double a) { return 1.0 / sqrt(a); }
inline int __float2int_rn(float a) { return int(nearbyintf(a)); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t(a) * b) >> 32); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __clz(int v) { return v ? __builtin_clz(unsigned(v)) : 32; }

inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += int(int8_t(a >> 8 * i)) * int(int8_t(b >> 8 * i));
    return c;
}
