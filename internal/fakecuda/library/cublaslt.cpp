// As much of cuBLASLt as package cuda uses, on the processor: products of bfloat16 with sums and results in float32. It is part of the driver's
// library, whose streams it works on. What package cuda does not mean to ask for is refused.

namespace {

enum LtStatus { lt_not_initialized = 1, lt_invalid_value = 7, lt_not_supported = 15 };

struct LtDesc { int trans_a = 0, trans_b = 0, epilogue = 1; const float* bias = nullptr; };
struct LtLayout { int type; uint64_t rows, columns; int64_t ld; };
struct LtPreference { uint64_t workspace = 0; unsigned reductions = 7; };
struct LtHeuristic { uint64_t algorithm[8]; uint64_t workspace; int state; float waves; int reserved[4]; };

long lt_live = 0;          // objects that were made and not destroyed
constexpr uint64_t lt_algorithm = 0x616c676f726974;  // of the only algorithm

template <class T> int lt_make(T** to, T value) {
    *to = new T(value);
    lt_live++;
    return success;
}
template <class T> int lt_destroy(T* p) {
    if (!p) return lt_invalid_value;
    delete p;
    lt_live--;
    return success;
}
template <class T> int lt_set(T* to, const void* from, size_t bytes) {
    if (bytes != sizeof(T)) return lt_invalid_value;
    memcpy(to, from, bytes);
    return success;
}

// lt_possible says whether D = A^T B can be computed as described.
bool lt_possible(const LtDesc* d, const LtLayout* a, const LtLayout* b, const LtLayout* c, const LtLayout* y) {
    return d->trans_a == 1 && d->trans_b == 0 && (d->epilogue == 1 || d->epilogue & (2 | 4 | 32)) && !(d->epilogue & ~(1 | 2 | 4 | 32)) &&
           a->type == 14 && b->type == 14 && c->type == 0 && y->type == 0 && a->rows == b->rows && y->rows == a->columns &&
           y->columns == b->columns && c->rows == y->rows && c->columns == y->columns && a->ld >= int64_t(a->rows) &&
           b->ld >= int64_t(b->rows) && y->ld >= int64_t(y->rows) && a->ld % 8 == 0 && b->ld % 8 == 0;
}

}  // namespace

API const char* cublasLtGetStatusName(int code) {
    switch (code) {
    case lt_not_initialized: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case lt_invalid_value: return "CUBLAS_STATUS_INVALID_VALUE";
    case lt_not_supported: return "CUBLAS_STATUS_NOT_SUPPORTED";
    }
    return "CUBLAS_STATUS_INTERNAL_ERROR";
}

API int cublasLtCreate(int** handle) {
    CALL(true);
    return lt_make(handle, 1);
}
API int cublasLtDestroy(int* handle) {
    CALL(false);
    return lt_destroy(handle);
}

API int cublasLtMatmulDescCreate(LtDesc** d, int compute, int scale) {
    CALL(false);
    if (compute != 68 || scale != 0) return lt_not_supported;
    return lt_make(d, LtDesc());
}
API int cublasLtMatmulDescDestroy(LtDesc* d) {
    CALL(false);
    return lt_destroy(d);
}
API int cublasLtMatmulDescSetAttribute(LtDesc* d, int attribute, const void* from, size_t bytes) {
    CALL(false);
    switch (attribute) {
    case 3: return lt_set(&d->trans_a, from, bytes);
    case 4: return lt_set(&d->trans_b, from, bytes);
    case 7: return lt_set(&d->epilogue, from, bytes);
    case 8: return lt_set(&d->bias, from, bytes);
    }
    return lt_invalid_value;
}

API int cublasLtMatrixLayoutCreate(LtLayout** l, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    CALL(false);
    return lt_make(l, LtLayout{type, rows, columns, ld});
}
API int cublasLtMatrixLayoutDestroy(LtLayout* l) {
    CALL(false);
    return lt_destroy(l);
}
API int cublasLtMatrixLayoutSetAttribute(LtLayout* l, int attribute, const void* from, size_t bytes) {
    CALL(false);
    return attribute == 3 ? lt_set(&l->columns, from, bytes) : lt_invalid_value;
}

API int cublasLtMatmulPreferenceCreate(LtPreference** p) {
    CALL(false);
    return lt_make(p, LtPreference());
}
API int cublasLtMatmulPreferenceDestroy(LtPreference* p) {
    CALL(false);
    return lt_destroy(p);
}
API int cublasLtMatmulPreferenceSetAttribute(LtPreference* p, int attribute, const void* from, size_t bytes) {
    CALL(false);
    if (attribute == 1) return lt_set(&p->workspace, from, bytes);
    return attribute == 3 ? lt_set(&p->reductions, from, bytes) : lt_invalid_value;
}

API int cublasLtMatmulAlgoGetHeuristic(int* handle, LtDesc* d, LtLayout* a, LtLayout* b, LtLayout* c, LtLayout* y, LtPreference* p, int wanted,
                                       LtHeuristic* found, int* n) {
    CALL(true);
    *n = 0;
    if (!handle || wanted < 1 || p->reductions != 0) return lt_invalid_value;
    if (!lt_possible(d, a, b, c, y)) return lt_not_supported;
    *found = {{lt_algorithm}, 1024, 0, 1, {}};
    *n = 1;
    return success;
}

API int cublasLtMatmulAlgoCheck(int* handle, LtDesc* d, LtLayout* a, LtLayout* b, LtLayout* c, LtLayout* y, const uint64_t* algorithm, LtHeuristic* result) {
    CALL(true);
    if (!handle || *algorithm != lt_algorithm) return lt_invalid_value;
    if (!lt_possible(d, a, b, c, y)) return lt_not_supported;
    *result = {{lt_algorithm}, 1024, 0, 1, {}};
    return success;
}

API int cublasLtMatmul(int* handle, LtDesc* d, const float* alpha, const unsigned short* a, LtLayout* a_layout, const unsigned short* b, LtLayout* b_layout,
                       const float* beta, const float* c, LtLayout* c_layout, float* y, LtLayout* y_layout, const uint64_t* algorithm, void* workspace,
                       size_t workspace_bytes, Stream* s) {
    CALL(true);
    if (!handle || !streams.count(s) || *algorithm != lt_algorithm || !inside(workspace, workspace_bytes) || workspace_bytes < 1024) return lt_invalid_value;
    if (!lt_possible(d, a_layout, b_layout, c_layout, y_layout)) return lt_not_supported;
    LtDesc desc = *d;
    LtLayout w = *a_layout, x = *b_layout, dst = *y_layout;
    float by = *alpha, old = *beta;
    Work work{Work::library};
    work.work = [=] {
        for (uint64_t j = 0; j < dst.columns; j++)
            for (uint64_t i = 0; i < dst.rows; i++) {
                float sum = 0;
                for (uint64_t k = 0; k < w.rows; k++) sum = fmaf(bf16_value(a[i * w.ld + k]), bf16_value(b[j * x.ld + k]), sum);
                float v = by * sum + (old == 0 ? 0 : old * c[j * dst.ld + i]);
                if (desc.epilogue & 4) v += desc.bias[i];
                y[j * dst.ld + i] = activate(v, desc.epilogue & 32 ? GELUTanh : desc.epilogue & 2 ? ReLU : Identity);
            }
    };
    return add(s, std::move(work));
}
