#!/bin/sh
# Writes all generated assembly again. A clean tree must stay clean.
set -e
cd "$(dirname "$0")"
for arch in amd64 arm64; do
    for pkg in vec screen gemm philox ceiling; do
        go run . $pkg $arch
    done
done
for pkg in vec screen; do
    for arch in amd64 arm64 noasm; do
        go run ./choose -pkg $pkg -arch $arch -out ../$pkg/kernels_$arch.go
    done
done
