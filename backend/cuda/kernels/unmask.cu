// All kernels, one translation unit: build.sh compiles it to unmask.ptx, a C++ compiler to the fake driver of the tests.
#include "common.cuh"
#include "rows.cu"
#include "norm.cu"
#include "groupnorm.cu"
#include "heads.cu"
#include "attention.cu"
#include "attention_tensor.cu"
#include "pool.cu"
