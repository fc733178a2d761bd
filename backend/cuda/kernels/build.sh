#!/usr/bin/env bash
# Compiles the kernels to unmask.ptx, which the binary embeds, and checks what ptxas makes of them.
#
# Needs nvcc 13, from $NVCC, the PATH, /usr/local/cuda or the active Python environment. Without a CUDA toolkit:
#
#     python3 -m venv cuda && . cuda/bin/activate
#     pip install nvidia-cuda-nvcc==13.5.37 nvidia-cuda-crt==13.5.37 nvidia-nvvm==13.5.37 \
#         nvidia-cuda-runtime==13.5.37 nvidia-cuda-cccl==13.3.5.0.6
#
# With --check unmask.ptx is compared, not written, if this nvcc is the one that its first line names: the same nvcc gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")"

# The PTX is marked with the oldest version that has all its instructions, so that older drivers take it: 7.8 is CUDA 11.8's.
isa=7.8
target=sm_80
checked="sm_80 sm_90a sm_100"

find_nvcc() {
    local n
    for n in "${NVCC:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "${VIRTUAL_ENV:-/nowhere}"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc; do
        if [ -x "$n" ]; then echo "$n"; return; fi
    done
    echo "build.sh: no nvcc in \$NVCC, the PATH, /usr/local/cuda or the active Python environment" >&2
    exit 1
}
nvcc=$(find_nvcc)
ptxas=$(dirname "$nvcc")/ptxas
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$nvcc" --ptx -std=c++17 -O3 -arch="${target/sm/compute}" -Werror all-warnings -o "$work/raw.ptx" unmask.cu
{
    "$nvcc" --version | sed -n 's/^Cuda compilation tools, /\/\/ nvcc /p'
    sed -e 's/^\.version .*/.version '$isa'/' -e '/^\/\//d' "$work/raw.ptx"
} > "$work/unmask.ptx"

spilled=0
for arch in $checked; do
    "$ptxas" -arch=$arch -v -o /dev/null "$work/unmask.ptx" 2> "$work/$arch" || { cat "$work/$arch"; exit 1; }
    printf '%-28s %-7s %9s %7s %7s\n' kernel "$arch" registers shared spilled
    awk '/Compiling entry function/ { split($0, p, "\047"); name = p[2] }
         /bytes spill stores/       { for (i = 1; i < NF; i++) if ($i == "bytes" && $(i+1) == "spill") spill += $(i-1) }
         /Used .* registers/        { shared = 0
                                      for (i = 1; i < NF; i++) { if ($(i+1) ~ /^registers/) r = $i; if ($(i+1) == "bytes" && $(i+2) ~ /^smem/) shared = $i }
                                      printf "%-28s %-7s %9d %7d %7d\n", name, "", r, shared, spill; total += spill; spill = 0 }
         END { exit total > 0 }' "$work/$arch" || spilled=1
done
[ $spilled = 0 ] || { echo "build.sh: registers are spilled"; exit 1; }

if [ "${1:-}" != --check ]; then
    cp "$work/unmask.ptx" unmask.ptx
elif [ "$(head -n 1 "$work/unmask.ptx")" = "$(head -n 1 unmask.ptx)" ]; then
    cmp "$work/unmask.ptx" unmask.ptx
else
    echo "unmask.ptx is of another nvcc and was not compared"
fi
