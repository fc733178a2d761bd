#!/usr/bin/env bash
# Packs what a machine with an NVIDIA GPU needs to check and measure unmask: tests, benchmarks and the command as a program,
# their data, and card.sh, which runs all of it. The machine needs no Go, no CUDA toolkit and no network.
#
#     bench/card/pack.sh card.tar.xz             # here, with Go; linux/amd64, or GOARCH=arm64
#     tar xf card.tar.xz && card/card.sh         # there: leaves card/results/report.txt
#
# Packages after the archive's name are packed instead of all: card.sh leaves out what is not there. The archive has
# 50 MB, half of them the demo models and the packs, and stays below 64 MiB.
set -euo pipefail
out=$(realpath -m "${1:-card.tar.xz}")
packages=${*:2}
packages=${packages:-. backend/backendtest backend/cuda dit vit media/codecs/vqgan families/llama research/metrics/gpt2 research/metrics/inception bench}
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
card=$work/card
mkdir -p "$card/bin"
export CGO_ENABLED=0 GOOS=linux

# One program, bin/unmask, is the command and all tests, so the demo models and the code that all need are there once. Called
# by the name of a link to it, bin/NAME.test, it runs a package's tests, in the package's folder, which is made with its data.
# For it a package's test files are files of the package, and those of PACKAGE_test are a package in a folder of it.
replaced="\"cmd/unmask/main.go\": \"$work/main.go\"" imports="" cases=""
for package in $packages; do
    name=${package//\//-} folder=./$package tests="" benchmarks=""
    [ "$package" = . ] && name=unmask folder=.
    for kind in Test XTest; do
        [ $kind = Test ] || folder+=/outside
        as=${kind}_${name//-/_} found=""
        for file in $(go list -f "{{join .${kind}GoFiles \" \"}}" "./$package"); do
            replaced+=", \"$folder/${file/%_test.go/_tests.go}\": \"$package/$file\""
            found+=$(sed -nE 's/^func ((Test|Benchmark)\w+)\(\w+ \*testing\.[TB]\).*/ \1/p' "$package/$file")
        done
        [ -z "$found" ] || imports+="import $as \"unmask${folder#.}\"; "
        for function in $found; do
            case $function in
            Test*) tests+="{\"$function\", $as.$function}, " ;;
            *) benchmarks+="{\"$function\", $as.$function}, " ;;
            esac
        done
    done
    cases+="case \"$name.test\": tests, benchmarks = []testing.InternalTest{$tests}, []testing.InternalBenchmark{$benchmarks}; "
    ln -s unmask "$card/bin/$name.test"
    mkdir -p "$card/$package"
    [ ! -d "$package/testdata" ] || [ "$package" = . ] || cp -r "$package/testdata" "$card/$package/"
done
cat > "$work/main.go" << END
package main
import ("os"; "path/filepath"; "regexp"; "testing"; "unmask/cli"); $imports
func main() {
    var tests []testing.InternalTest
    var benchmarks []testing.InternalBenchmark
    switch filepath.Base(os.Args[0]) { ${cases}default: os.Exit(cli.Main(os.Args[1:])) }
    testing.Main(regexp.MatchString, tests, benchmarks, nil)
}
END
echo "{\"Replace\": {$replaced}}" > "$work/overlay.json"
go build -trimpath -ldflags='-s -w' -overlay "$work/overlay.json" -o "$card/bin/unmask" ./cmd/unmask
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

tar -C "$work" -c card | xz --threads=0 -4 > "$out"
bytes=$(stat -c %s "$out")
echo "$out: $((bytes / 1000000)) MB"
[ "$bytes" -le $((64 << 20)) ] || { echo "pack.sh: more than 64 MiB" >&2; exit 1; }
