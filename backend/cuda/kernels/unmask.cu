// All kernels, one translation unit: build.sh compiles it to unmask.ptx, a C++ compiler to the fake driver of the tests.
#include "common.cuh"
