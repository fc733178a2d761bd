#!/bin/sh
# Writes all generated assembly again. A clean tree must stay clean.
set -e
cd "$(dirname "$0")"
go run ./gemm -out ../gemm/gemm_amd64.s -stubs ../gemm/gemm_amd64.go -pkg gemm
go run ./vec -out ../vec/vec_amd64.s -stubs ../vec/vec_amd64.go -pkg vec
go run ./ceiling -out ../../../bench/internal/ceiling/ceiling_amd64.s -stubs ../../../bench/internal/ceiling/ceiling_amd64.go -pkg ceiling
