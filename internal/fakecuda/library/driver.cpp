// A driver library for tests where there is no GPU: the part of the CUDA driver API that package cuda uses, on the processor.
//
// Kernels are the real sources, compiled through emulate.h, so results are true. Where the driver leaves room, this one does what
// shows mistakes:
//   - work on a stream runs as late as it may: when it is waited for. What is read or overwritten before, shows. Memory of the host
//     is read as late, pinned or not: the manual says of the latter only that the call might be synchronous.
//   - device memory cannot be touched by the host, begins full of NaN, and ends at a page that nobody can touch.
//   - a call needs the context current on its own thread; a capture refuses what a capture must not contain.
//   - a kernel must be in the module with the parameters that the source has, be given as many, and have no more threads and
//     registers than a block may.
// Calls are counted, and can be made to fail: see the fake_ functions at the end.
#include <setjmp.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "unmask.cu"  // last: it defines words that the standard library uses
#include "module.cpp"

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum Code {
    success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, no_device = 100, invalid_device = 101,
    invalid_image = 200, invalid_context = 201, no_binary_for_gpu = 209, invalid_ptx = 218, jit_compiler_not_found = 221,
    unsupported_ptx_version = 222, invalid_handle = 400, not_found = 500, not_ready = 600,
    illegal_address = 700, launch_out_of_resources = 701, launch_failed = 719, stream_capture_unsupported = 900,
    stream_capture_invalidated = 901, unknown = 999,
};

const std::map<int, std::pair<const char*, const char*>> code_names = {
    {1, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {2, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {3, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {100, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {101, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {200, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {201, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {209, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
    {218, {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
    {221, {"CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"}},
    {222, {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."}},
    {400, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {500, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {600, {"CUDA_ERROR_NOT_READY", "device not ready"}},
    {700, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {701, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}},
    {719, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {900, {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
    {901, {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}},
    {999, {"CUDA_ERROR_UNKNOWN", "unknown error"}},
};

// ---- what there is ----

struct Function { const emulate::Kernel* kernel; Entry entry; size_t shared = 48 << 10; };
struct Module { Entries entries; std::map<std::string, std::unique_ptr<Function>> functions; };
struct Event { size_t recorded = 0; bool timed = false; double came = -1; };  // came: when, in ms

// Work is an entry of a stream, a few words of parameters included.
struct Work {
    enum { launch, copy, fill, graph, record, library } kind;
    Function* function = nullptr;
    dim3 grid, block;
    size_t shared = 0;
    std::vector<uint64_t> params;
    void* to = nullptr;
    const void* from = nullptr;
    size_t bytes = 0;
    int value = 0;
    struct Graph* of = nullptr;
    Event* event = nullptr;
    std::function<void()> work;  // of a library
};
struct Graph { std::vector<Work> work; };
struct Stream {
    std::vector<Work> queue;
    bool capturing = false, spoilt = false;
    std::vector<Work> captured;
};

struct Allocation { char* pages; size_t mapped, bytes; bool open = false; };

std::recursive_mutex mutex;
int devices = 1, major = 9, minor = 0, driver_version = 13000;
size_t memory_total = size_t(4) << 30, memory_used = 0;
int compile_ms = 0;      // that loading PTX takes
bool computes = true;    // or launches do nothing, to time the host alone
long lose_after = -1;  // launches until the device is lost
int sticky = 0;        // an error after which the context is of no use
bool initialized = false;
int retained = 0;
char context_object;
thread_local void* current_context = nullptr;

std::map<char*, Allocation> allocations;  // by where they end
std::map<char*, size_t> host_allocations;
std::set<Module*> modules;
std::set<Stream*> streams;
std::set<Event*> events;
std::set<Graph*> graphs, executables;
std::map<std::string, long> calls;
std::map<std::string, std::map<long, int>> injected;

// ---- device memory ----

size_t page() { static size_t n = size_t(sysconf(_SC_PAGESIZE)); return n; }
size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// open_at opens the allocation that holds an address, if there is one and it is closed, to kernels and copies. Each reaches for few
// of all allocations, and opening and closing all of them would take most of the time of a test.
bool open_at(const void* p) {
    auto a = allocations.upper_bound(static_cast<char*>(const_cast<void*>(p)));
    if (a == allocations.end() || p < a->second.pages || a->second.open) return false;
    a->second.open = true;
    return mprotect(a->second.pages, a->second.mapped, PROT_READ | PROT_WRITE) == 0;
}

// close_all closes device memory to everybody.
void close_all() {
    for (auto& a : allocations) {
        if (a.second.open) mprotect(a.second.pages, a.second.mapped, PROT_NONE);
        a.second.open = false;
    }
}

bool inside(const void* p, size_t bytes) {
    const char* c = static_cast<const char*>(p);
    auto a = allocations.upper_bound(const_cast<char*>(c));
    return a != allocations.end() && c >= a->first - a->second.bytes && c + bytes <= a->first;
}

bool pinned(const void* p, size_t bytes) {
    const char* c = static_cast<const char*>(p);
    auto a = host_allocations.upper_bound(const_cast<char*>(c));
    if (a == host_allocations.begin()) return false;
    --a;
    return c >= a->first && c + bytes <= a->first + a->second;
}

// ---- running ----

sigjmp_buf escape;
pthread_t runner;
bool running = false;
struct sigaction before_segv, before_bus;

void fault(int number, siginfo_t* info, void* context) {
    if (running && pthread_equal(runner, pthread_self())) {
        if (open_at(info->si_addr)) return;
        siglongjmp(escape, 1);
    }
    struct sigaction& old = number == SIGSEGV ? before_segv : before_bus;
    if (old.sa_flags & SA_SIGINFO) old.sa_sigaction(number, info, context);
    else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) old.sa_handler(number);
    else signal(number, SIG_DFL);
}

void run(Work& w) {
    switch (w.kind) {
    case Work::launch: {
        calls[w.function->kernel->name]++;
        if (lose_after >= 0 && lose_after-- == 0) { sticky = launch_failed; return; }
        if (!computes) return;
        std::vector<void*> params;
        for (uint64_t& p : w.params) params.push_back(&p);
        emulate::launch(*w.function->kernel, w.grid, w.block, w.shared, params.data());
        break;
    }
    case Work::copy: memmove(w.to, w.from, w.bytes); break;
    case Work::fill: memset(w.to, w.value, w.bytes); break;
    case Work::graph:
        for (Work& inner : w.of->work) {
            run(inner);
            if (sticky) return;
        }
        break;
    case Work::record: {
        w.event->recorded = 0;
        timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        w.event->came = double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
        break;
    }
    case Work::library: w.work(); break;
    }
}

const char* doing(const Work& w) { return w.kind == Work::launch ? w.function->kernel->name : "a copy"; }

// finish runs all that waits on the stream. A kernel that reaches for memory that is not there makes the context useless.
int finish(Stream* s) {
    if (s->queue.empty() || sticky) { s->queue.clear(); return sticky; }
    std::vector<Work> queue;
    queue.swap(s->queue);
    struct sigaction mine = {};
    mine.sa_sigaction = fault;
    mine.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &mine, &before_segv);
    sigaction(SIGBUS, &mine, &before_bus);
    runner = pthread_self();
    running = true;
    volatile size_t at = 0;
    if (sigsetjmp(escape, 1) == 0) {
        for (; at < queue.size() && !sticky; at = at + 1) run(queue[at]);
    } else {
        fprintf(stderr, "fakecuda: %s reached for memory that is not there: block (%u,%u,%u), thread %u\n", doing(queue[at]),
                emulate::block.at.x, emulate::block.at.y, emulate::block.at.z, emulate::current ? emulate::current->number : 0);
        sticky = illegal_address;
    }
    running = false;
    sigaction(SIGSEGV, &before_segv, nullptr);
    sigaction(SIGBUS, &before_bus, nullptr);
    close_all();
    return sticky;
}

int finish_all() {
    for (Stream* s : streams) finish(s);
    return sticky;
}

// add enqueues work, or records it.
int add(Stream* s, Work w) {
    (s->capturing ? s->captured : s->queue).push_back(std::move(w));
    return success;
}

// refuse is for calls that a capture must not contain.
bool refuse() {
    bool any = false;
    for (Stream* s : streams)
        if (s->capturing) s->spoilt = any = true;
    return any;
}

// enter counts a call and says whether it must fail.
int enter(const char* name, bool needs_context) {
    long n = ++calls[name];
    auto f = injected.find(name);
    if (f != injected.end()) {
        auto at = f->second.find(n);
        if (at != f->second.end()) {
            int code = at->second;
            f->second.erase(at);
            return code;
        }
    }
    if (!initialized && strcmp(name, "cuInit")) return not_initialized;
    if (needs_context && sticky) return sticky;
    if (needs_context && current_context != &context_object) return invalid_context;
    return success;
}

#define CALL(context)                                       \
    std::lock_guard<std::recursive_mutex> guard(mutex);     \
    if (int code = enter(__func__, context)) return code;

}  // namespace

// ---- the driver API ----

API int cuInit(unsigned) {
    CALL(false);
    initialized = true;
    return success;
}

API int cuDriverGetVersion(int* version) {
    CALL(false);
    *version = driver_version;
    return success;
}

API int cuGetErrorName(int code, const char** text) {
    auto at = code_names.find(code);
    *text = at == code_names.end() ? nullptr : at->second.first;
    return *text ? success : invalid_value;
}

API int cuGetErrorString(int code, const char** text) {
    auto at = code_names.find(code);
    *text = at == code_names.end() ? nullptr : at->second.second;
    return *text ? success : invalid_value;
}

API int cuDeviceGetCount(int* n) {
    CALL(false);
    *n = devices;
    return success;
}

API int cuDeviceGet(int* device, int i) {
    CALL(false);
    if (i < 0 || i >= devices) return invalid_device;
    *device = i;
    return success;
}

API int cuDeviceGetName(char* name, int n, int device) {
    CALL(false);
    snprintf(name, size_t(n), "Fake GPU");
    return device < devices ? success : invalid_device;
}

API int cuDeviceTotalMem_v2(size_t* bytes, int) {
    CALL(false);
    *bytes = memory_total;
    return success;
}

API int cuDeviceGetAttribute(int* value, int attribute, int) {
    CALL(false);
    switch (attribute) {
    case 16: *value = 4; break;              // multiprocessors: few, so that tests see more blocks than fit
    case 38: *value = 50 << 20; break;       // L2
    case 75: *value = major; break;
    case 76: *value = minor; break;
    case 97: *value = 227 << 10; break;      // shared memory a block
    default: return invalid_value;
    }
    return success;
}

API int cuDevicePrimaryCtxRetain(void** context, int) {
    CALL(false);
    if (sticky) return sticky;
    retained++;
    *context = &context_object;
    return success;
}

API int cuDevicePrimaryCtxRelease_v2(int) {
    CALL(false);
    if (retained == 0) return invalid_context;
    if (--retained == 0) sticky = 0;  // the next context is a new one
    return success;
}

API int cuCtxSetCurrent(void* context) {
    CALL(false);
    if (context && (context != &context_object || !retained)) return invalid_context;
    current_context = context;
    return success;
}

// load_ptx says why a driver would not compile a PTX, or what it holds.
int load_ptx(const char* image, Entries* entries, const char** why) {
    std::string ptx = image;
    size_t at = ptx.find(".version ");
    int isa = 0, isa_minor = 0;
    if (at == std::string::npos || ptx.find(".address_size 64") == std::string::npos) {
        *why = "ptxas application ptx input, line 1; fatal   : Missing .version directive at start of file";
        return invalid_ptx;
    }
    sscanf(ptx.c_str() + at, ".version %d.%d", &isa, &isa_minor);
    if (10 * isa + isa_minor > 10 * (driver_version / 1000 - 4) + driver_version % 1000 / 10) {
        *why = "ptxas application ptx input, line 1; fatal   : Unsupported .version";
        return unsupported_ptx_version;
    }
    usleep(unsigned(compile_ms) * 1000);
    *entries = read_ptx(ptx);
    return success;
}

// load_elf is the same of machine code, which ptxas 12 made.
int load_elf(const char* image, Entries* entries) {
    if (compiled_for(image) != 10 * major + minor) return no_binary_for_gpu;
    if (driver_version < 12000) return invalid_image;
    *entries = read_elf(image);
    return success;
}

API int cuModuleLoadDataEx(Module** module, const char* image, unsigned n, int* options, void** values) {
    CALL(true);
    Entries entries;
    const char* why = "";
    int code = is_elf(image) ? load_elf(image, &entries) : load_ptx(image, &entries, &why);
    for (unsigned i = 0; code && i + 1 < n; i++)
        if (options[i] == 5 && options[i + 1] == 6) snprintf(static_cast<char*>(values[i]), size_t(values[i + 1]), "%s", why);
    if (code) return code;
    *module = new Module{std::move(entries), {}};
    modules.insert(*module);
    return success;
}

API int cuModuleUnload(Module* m) {
    CALL(true);
    finish_all();
    if (!modules.erase(m)) return invalid_handle;
    delete m;
    return success;
}

API int cuModuleGetFunction(Function** function, Module* m, const char* name) {
    CALL(true);
    if (!modules.count(m)) return invalid_handle;
    const emulate::Kernel* k = emulate::find(name);
    auto entry = m->entries.find(name);
    if (!k || entry == m->entries.end()) return not_found;
    if (entry->second.sizes != k->sizes) {
        fprintf(stderr, "fakecuda: the module's %s has other parameters than its source: build.sh was not run\n", name);
        return invalid_ptx;
    }
    auto& f = m->functions[name];
    if (!f) f.reset(new Function{k, entry->second});
    *function = f.get();
    return success;
}

API int cuFuncSetAttribute(Function* f, int attribute, int value) {
    CALL(true);
    if (attribute != 8 || value < 0 || value > 227 << 10) return invalid_value;
    f->shared = std::max(f->shared, size_t(value));
    return success;
}

API int cuMemGetInfo_v2(size_t* free, size_t* total) {
    CALL(true);
    *free = memory_total - memory_used;
    *total = memory_total;
    return success;
}

// The last byte is the last of a page, but for what 16 bytes of alignment leave; the page after it is nobody's.
API int cuMemAlloc_v2(char** p, size_t bytes) {
    CALL(true);
    if (refuse()) return stream_capture_unsupported;
    if (bytes == 0) return invalid_value;
    if (bytes > memory_total - memory_used) return out_of_memory;
    size_t payload = up(bytes, 16), mapped = up(payload, page());
    void* m = mmap(nullptr, mapped + page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) return out_of_memory;
    char* end = static_cast<char*>(m) + mapped;
    mprotect(m, mapped, PROT_READ | PROT_WRITE);
    if (mapped <= 8 << 20) memset(m, 0xff, mapped);
    mprotect(m, mapped, PROT_NONE);
    memory_used += bytes;
    allocations[end] = {static_cast<char*>(m), mapped, payload};
    *p = end - payload;
    return success;
}

API int cuMemFree_v2(char* p) {
    CALL(true);
    if (refuse()) return stream_capture_unsupported;
    finish_all();
    for (auto a = allocations.begin(); a != allocations.end(); ++a)
        if (a->first - a->second.bytes == p) {
            memory_used -= a->second.bytes;
            munmap(a->second.pages, a->second.mapped + page());
            allocations.erase(a);
            return sticky;
        }
    return invalid_value;
}

API int cuMemAllocHost_v2(char** p, size_t bytes) {
    CALL(true);
    if (refuse()) return stream_capture_unsupported;
    *p = static_cast<char*>(aligned_alloc(4096, up(bytes, 4096)));
    memset(*p, 0xff, bytes);
    host_allocations[*p] = bytes;
    return success;
}

API int cuMemFreeHost(char* p) {
    CALL(false);
    finish_all();
    if (!host_allocations.erase(p)) return invalid_value;
    free(p);
    return success;
}

API int cuMemcpyHtoDAsync_v2(char* to, const char* from, size_t bytes, Stream* s) {
    CALL(true);
    if (!streams.count(s)) return invalid_handle;
    if (!inside(to, bytes)) return invalid_value;
    Work w{Work::copy};
    w.to = to, w.from = from, w.bytes = bytes;
    if (!pinned(from, bytes) && refuse()) return stream_capture_unsupported;
    return add(s, std::move(w));
}

API int cuMemcpyDtoHAsync_v2(char* to, const char* from, size_t bytes, Stream* s) {
    CALL(true);
    if (!streams.count(s)) return invalid_handle;
    if (!inside(from, bytes)) return invalid_value;
    Work w{Work::copy};
    w.to = to, w.from = from, w.bytes = bytes;
    if (pinned(to, bytes)) return add(s, std::move(w));
    if (refuse()) return stream_capture_unsupported;
    add(s, std::move(w));
    return finish(s);
}

API int cuMemcpyDtoDAsync_v2(char* to, const char* from, size_t bytes, Stream* s) {
    CALL(true);
    if (!streams.count(s)) return invalid_handle;
    if (!inside(to, bytes) || !inside(from, bytes)) return invalid_value;
    Work w{Work::copy};
    w.to = to, w.from = from, w.bytes = bytes;
    return add(s, std::move(w));
}

API int cuMemsetD8Async(char* to, unsigned char value, size_t bytes, Stream* s) {
    CALL(true);
    if (!streams.count(s)) return invalid_handle;
    if (!inside(to, bytes)) return invalid_value;
    Work w{Work::fill};
    w.to = to, w.bytes = bytes, w.value = value;
    return add(s, std::move(w));
}

API int cuStreamCreate(Stream** s, unsigned) {
    CALL(true);
    *s = new Stream;
    streams.insert(*s);
    return success;
}

API int cuStreamDestroy_v2(Stream* s) {
    CALL(false);
    if (!streams.count(s)) return invalid_handle;
    finish(s);
    streams.erase(s);
    delete s;
    return success;
}

API int cuStreamSynchronize(Stream* s) {
    CALL(true);
    if (!streams.count(s)) return invalid_handle;
    if (refuse()) return stream_capture_unsupported;
    return finish(s);
}

API int cuStreamBeginCapture_v2(Stream* s, int) {
    CALL(true);
    if (!streams.count(s) || s->capturing) return invalid_handle;
    s->capturing = true;
    s->spoilt = false;
    s->captured.clear();
    return success;
}

API int cuStreamEndCapture(Stream* s, Graph** g) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    if (!streams.count(s) || !s->capturing) return invalid_handle;
    s->capturing = false;  // whether this call fails or not
    if (int code = enter(__func__, true)) return code;
    *g = nullptr;
    if (s->spoilt) return stream_capture_invalidated;
    *g = new Graph{std::move(s->captured)};
    s->captured.clear();
    graphs.insert(*g);
    return success;
}

API int cuEventCreate(Event** e, unsigned flags) {
    CALL(true);
    *e = new Event;
    (*e)->timed = !(flags & 2);
    events.insert(*e);
    return success;
}

API int cuEventRecord(Event* e, Stream* s) {
    CALL(true);
    if (!events.count(e) || !streams.count(s)) return invalid_handle;
    Work w{Work::record};
    w.event = e;
    e->recorded = 1;
    return add(s, std::move(w));
}

API int cuEventSynchronize(Event* e) {
    CALL(true);
    if (!events.count(e)) return invalid_handle;
    if (refuse()) return stream_capture_unsupported;
    return e->recorded ? finish_all() : success;
}

API int cuEventElapsedTime(float* ms, Event* from, Event* to) {
    CALL(true);
    if (!events.count(from) || !events.count(to) || !from->timed || !to->timed || from->came < 0 || to->came < 0) return invalid_handle;
    if (from->recorded || to->recorded) return not_ready;
    *ms = float(to->came - from->came);
    return success;
}

API int cuEventDestroy_v2(Event* e) {
    CALL(false);
    finish_all();
    if (!events.erase(e)) return invalid_handle;
    delete e;
    return success;
}

API int cuLaunchKernel(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                       Stream* s, void** params, void** extra) {
    CALL(true);
    if (!streams.count(s)) return invalid_handle;
    if (!gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535 || !bx || !by || !bz || bx * by * bz > 1024 || extra) return invalid_value;
    if (shared > f->shared || bx * by * bz > f->entry.threads) return invalid_value;
    if (up(bx * by * bz, 128) * up(f->entry.registers, 8) > 64 << 10) return launch_out_of_resources;
    Work w{Work::launch};
    w.function = f, w.grid = {gx, gy, gz}, w.block = {bx, by, bz}, w.shared = shared;
    for (size_t i = 0; i < f->kernel->sizes.size(); i++) {
        if (!params[i]) return invalid_value;
        uint64_t v = 0;
        memcpy(&v, params[i], f->kernel->sizes[i]);
        w.params.push_back(v);
    }
    if (params[w.params.size()]) {  // package cuda ends its list with a null
        fprintf(stderr, "fakecuda: %s is given more than its %zu parameters\n", f->kernel->name, w.params.size());
        return invalid_value;
    }
    return add(s, std::move(w));
}

API int cuGraphInstantiateWithFlags(Graph** executable, Graph* g, unsigned long long) {
    CALL(true);
    if (!graphs.count(g)) return invalid_handle;
    *executable = new Graph{g->work};
    executables.insert(*executable);
    return success;
}

API int cuGraphLaunch(Graph* executable, Stream* s) {
    CALL(true);
    if (!executables.count(executable) || !streams.count(s)) return invalid_handle;
    Work w{Work::graph};
    w.of = executable;
    return add(s, std::move(w));
}

API int cuGraphDestroy(Graph* g) {
    CALL(false);
    if (!graphs.erase(g)) return invalid_handle;
    delete g;
    return success;
}

API int cuGraphExecDestroy(Graph* executable) {
    CALL(false);
    finish_all();
    if (!executables.erase(executable)) return invalid_handle;
    delete executable;
    return success;
}

// ---- what tests ask and say ----

// fake_calls is how often a driver's function was called, or a kernel ran.
API long fake_calls(const char* name) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    return calls[name];
}

API void fake_forget_calls() {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    calls.clear();
    injected.clear();
}

// fake_inject makes the nth call from now of a function fail once.
API void fake_inject(const char* name, long nth, int code) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    injected[name][calls[name] + nth] = code;
}

// fake_set changes what the machine is.
API long fake_set(const char* what, long value) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    if (!strcmp(what, "devices")) devices = int(value);
    else if (!strcmp(what, "memory")) memory_total = size_t(value);
    else if (!strcmp(what, "driver")) driver_version = int(value);
    else if (!strcmp(what, "major")) major = int(value);
    else if (!strcmp(what, "minor")) minor = int(value);
    else if (!strcmp(what, "compile")) compile_ms = int(value);
    else if (!strcmp(what, "lose after")) lose_after = value;
    else if (!strcmp(what, "computes")) computes = value != 0;
    else return invalid_value;
    return success;
}

// fake_live is how many of a kind were made and not given back.
API long fake_live(const char* what) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    if (!strcmp(what, "allocations")) return long(allocations.size());
    if (!strcmp(what, "bytes")) return long(memory_used);
    if (!strcmp(what, "host allocations")) return long(host_allocations.size());
    if (!strcmp(what, "modules")) return long(modules.size());
    if (!strcmp(what, "streams")) return long(streams.size());
    if (!strcmp(what, "events")) return long(events.size());
    if (!strcmp(what, "graphs")) return long(graphs.size());
    if (!strcmp(what, "executables")) return long(executables.size());
    if (!strcmp(what, "contexts")) return retained;
    return -1;
}
