#!/usr/bin/env bash
# Compiles the kernels to the two files that the binary embeds, and checks what ptxas makes of them:
#
#   unmask.ptx.gz            PTX, which a driver compiles for its GPU
#   unmask.sm_90a.cubin.gz   machine code for Hopper GPUs, which needs no compiler; it alone has the kernels with wgmma
#
# Run it after every change of a kernel, after a new one, and after a merge or rebase in which both sides changed
# kernels: the two files are then in conflict, either may be taken, and this script writes the right ones. Go code
# registers a kernel by its name, and the tests' driver refuses files that are not of the sources, so a build that was
# forgotten shows. Commit both files with the sources.
#
# It needs nvcc 13, from $NVCC, the PATH, /usr/local/cuda or the active Python environment, and ptxas 12, from $PTXAS12
# or that environment: machine code of 13 does not load on drivers of CUDA 12. Without a CUDA toolkit:
#
#     python3 -m venv cuda && . cuda/bin/activate
#     pip install nvidia-cuda-nvcc==13.5.37 nvidia-cuda-crt==13.5.37 nvidia-nvvm==13.5.37 \
#         nvidia-cuda-runtime==13.5.37 nvidia-cuda-cccl==13.3.5.0.6 nvidia-cuda-nvcc-cu12==12.9.86
#
# With --check the files are compared, not written, if this nvcc is the one that the PTX's first line names: the same
# nvcc gives the same bytes. The whole takes a minute or two.
set -euo pipefail
cd "$(dirname "$0")"

# The PTX is marked with the oldest version that has all its instructions, so that older drivers take it: 7.8 is CUDA 11.8's.
isa=7.8
target=sm_80
machine=sm_90a
machine_isa=8.0 # the oldest with wgmma

find_first() { # the first of the arguments that can be run
    local n
    for n in "$@"; do
        if [ -x "$n" ]; then echo "$n"; return; fi
    done
    return 1
}
packages=${VIRTUAL_ENV:-/nowhere}/lib/python3*/site-packages/nvidia
nvcc=$(find_first "${NVCC:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc $packages/cu13/bin/nvcc) ||
    { echo "build.sh: no nvcc in \$NVCC, the PATH, /usr/local/cuda or the active Python environment" >&2; exit 1; }
ptxas=$(dirname "$nvcc")/ptxas
ptxas12=$(find_first "${PTXAS12:-}" $packages/cuda_nvcc/bin/ptxas || true)
if [ -z "$ptxas12" ] || [[ $("$ptxas12" --version) != *"release 12."* ]]; then
    echo "build.sh: no ptxas of CUDA 12 in \$PTXAS12 or the active Python environment" >&2
    [ "${1:-}" = --check ] || exit 1
    ptxas12=
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# -fmad=false: a product and a sum become one instruction where the source says fmaf, and nowhere else. Otherwise kernels that must
# give the same bits might be fused differently, by this compiler or by the driver's.
to_ptx() { # compiles for $1, marked with version $2, to $3; the rest are for nvcc
    "$nvcc" --ptx -std=c++17 -O3 -fmad=false -arch="${1/sm/compute}" -Werror all-warnings "${@:4}" -o "$work/raw.ptx" unmask.cu
    {
        "$nvcc" --version | sed -n 's/^Cuda compilation tools, /\/\/ nvcc /p'
        sed -e 's/^\.version .*/.version '$2'/' -e '/^\/\//d' "$work/raw.ptx"
    } > "$work/$3"
    if grep -nE '(add|sub|mul|mad)(\.ftz)?\.f(32|64)' "$work/$3"; then
        echo "build.sh: a driver may fuse the instructions above: they have no rounding" >&2
        exit 1
    fi
}
to_ptx $target $isa unmask.ptx
to_ptx $machine $machine_isa unmask.$machine.ptx -DHOPPER

spilled=0
examine() { # compiles $4 for $2 with ptxas $1 to $3, and shows registers, shared memory and spills of each kernel
    "$1" -arch=$2 -v -o "$3" "$work/$4" 2> "$work/$2" || { cat "$work/$2"; exit 1; }
    if grep C7515 "$work/$2"; then
        echo "build.sh: ptxas makes the products above wait for one another" >&2
        exit 1
    fi
    printf '%-28s %-7s %9s %7s %7s\n' kernel "$2" registers shared spilled
    awk '/Compiling entry function/ { split($0, p, "\047"); name = p[2] }
         /bytes spill stores/       { for (i = 1; i < NF; i++) if ($i == "bytes" && $(i+1) == "spill") spill += $(i-1) }
         /Used .* registers/        { shared = 0
                                      for (i = 1; i < NF; i++) { if ($(i+1) ~ /^registers/) r = $i; if ($(i+1) == "bytes" && $(i+2) ~ /^smem/) shared = $i }
                                      printf "%-28s %-7s %9d %7d %7d\n", name, "", r, shared, spill; total += spill; spill = 0 }
         END { exit total > 0 }' "$work/$2" || spilled=1
}
[ -z "$ptxas12" ] || examine "$ptxas12" $machine "$work/unmask.$machine.cubin" unmask.$machine.ptx
examine "$ptxas" $machine /dev/null unmask.$machine.ptx
for arch in sm_80 sm_90 sm_100; do examine "$ptxas" $arch /dev/null unmask.ptx; done
[ $spilled = 0 ] || { echo "build.sh: registers are spilled"; exit 1; }

if [ "${1:-}" != --check ]; then
    for f in unmask.ptx unmask.$machine.cubin; do gzip -9nc "$work/$f" > $f.gz; done
elif [ "$(head -n 1 "$work/unmask.ptx")" = "$(zcat unmask.ptx.gz 2>/dev/null | head -n 1)" ]; then
    zcat unmask.ptx.gz | cmp "$work/unmask.ptx" -
    [ -z "$ptxas12" ] || zcat unmask.$machine.cubin.gz | cmp "$work/unmask.$machine.cubin" -
else
    echo "unmask.ptx.gz is of another nvcc and was not compared"
fi
