#!/usr/bin/env bash
# Packs what a machine with an NVIDIA GPU needs to check and measure unmask: tests and benchmarks as programs, the command,
# their data, and card.sh, which runs all of it. The machine needs no Go, no CUDA toolkit and no network.
#
#     bench/card/pack.sh card.tar.xz             # here, with Go; linux/amd64, or GOARCH=arm64
#     tar xf card.tar.xz && card/card.sh         # there: leaves card/results/report.txt
#
# Packages after the archive's name are packed instead of all: card.sh leaves out what is not there. The archive stays below
# 64 MiB, of which the demo models and the packs are 30.
set -euo pipefail
out=$(realpath -m "${1:-card.tar.xz}")
packages=${*:2}
packages=${packages:-. backend/backendtest backend/cuda dit vit codecs/vqgan llama research/metrics/gpt2 research/metrics/inception bench}
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
card=$work/card
mkdir -p "$card/bin"
export CGO_ENABLED=0 GOOS=linux

# A package's tests are bin/NAME.test and run in their package's folder, which is made with its data.
for package in $packages; do
    name=${package//\//-}
    [ "$package" = . ] && name=unmask
    go test -c -trimpath -ldflags='-s -w' -o "$card/bin/$name.test" "./$package"
    mkdir -p "$card/$package"
    [ ! -d "$package/testdata" ] || [ "$package" = . ] || cp -r "$package/testdata" "$card/$package/"
done
go build -trimpath -ldflags='-s -w' -o "$card/bin/unmask" ./cmd/unmask
mkdir -p "$card/internal/fakecuda" "$card/testdata" "$card/bench"
mkdir "$card/testdata/packs"
cp -r testdata/golden "$card/testdata/"
cp -r testdata/packs/{sdtt,mage,gpt2,inception,llada,dream,sdar,fast-dllm,nemotron,wedlm,coda,open-dcoder,rnd1,stable-diffcoder}* "$card/testdata/packs/"
for data in model weights/gguf; do mkdir -p "$card/$data"; cp -r $data/testdata "$card/$data/"; done # the llama tests'
mkdir "$card/tools"
cp -r tools/peers "$card/tools/"
cp -r internal/fakecuda/library "$card/internal/fakecuda/" # an emulated GPU, to try card.sh without one
mkdir -p "$card/backend/cuda/kernels"
cp backend/cuda/kernels/*.cu backend/cuda/kernels/*.cuh backend/cuda/kernels/*.h "$card/backend/cuda/kernels/"
cp bench/card/card.sh "$card/"
{ git describe --always --dirty; go version; } > "$card/VERSION"

# The programs have much in common, above all those with the demo models: side by side, a dictionary as large as several finds it.
(
    cd "$work"
    for name in unmask unmask.test bench.test metrics-gpt2.test; do [ ! -e card/bin/$name ] || echo card/bin/$name; done > first
    tar -cf - -T first --exclude-from=first card
) | xz --threads=1 --lzma2=preset=3,dict=192MiB > "$out"
bytes=$(stat -c %s "$out")
echo "$out: $((bytes / 1000000)) MB"
[ "$bytes" -le $((64 << 20)) ] || { echo "pack.sh: more than 64 MiB" >&2; exit 1; }
