#!/bin/sh
# Writes all generated assembly again. A clean tree must stay clean.
set -e
cd "$(dirname "$0")"
go run ./gemm -out ../gemm/gemm_amd64.s -pkg gemm
for part in products blocks pack; do
    go run ./gemm -part $part -out /dev/null -stubs ../gemm/${part}_amd64.go -pkg gemm
done
go run ./vec -out ../vec/vec_amd64.s -pkg vec
for part in functions rows attention fixed; do
    go run ./vec -part $part -out /dev/null -stubs ../vec/${part}_amd64.go -pkg vec
done
for pkg in vec screen; do
    for arch in amd64 arm64 noasm; do
        go run ./choose -pkg $pkg -arch $arch -out ../$pkg/kernels_$arch.go
    done
done
go run ./philox -out ../../philox/fill_amd64.s -stubs ../../philox/fill_amd64.go -pkg philox
go run ./screen -out ../screen/screen_amd64.s -stubs ../screen/screen_amd64.go -pkg screen
go run ./ceiling -out ../../../bench/internal/ceiling/ceiling_amd64.s -stubs ../../../bench/internal/ceiling/ceiling_amd64.go -pkg ceiling
go run ./neongemm -out ../gemm/gemm_arm64.s -pkg gemm
for part in products blocks pack; do
    go run ./neongemm -part $part -stubs ../gemm/${part}_arm64.go -pkg gemm
done
go run ./neonvec -out ../vec/vec_arm64.s -pkg vec
for part in functions rows attention; do
    go run ./neonvec -part $part -stubs ../vec/${part}_arm64.go -pkg vec
done
go run ./neonphilox -out ../../philox/fill_arm64.s -stubs ../../philox/fill_arm64.go -pkg philox
go run ./neonscreen -out ../screen/screen_arm64.s -stubs ../screen/screen_arm64.go -pkg screen
go run ./neonceiling -out ../../../bench/internal/ceiling/ceiling_arm64.s -stubs ../../../bench/internal/ceiling/ceiling_arm64.go -pkg ceiling
