#!/usr/bin/env bash
# Checks and measures unmask on a machine's first NVIDIA GPU, and leaves results/report.txt. Run it where pack.sh's archive was unpacked:
#
#     card/card.sh                    # all stages, about 25 minutes
#     card/card.sh alive kernels      # some: alive kernels networks bits memory tiles speed why peers
#     UNMASK_TEST_GPU=0 card/card.sh  # on an emulated GPU (needs a C++ compiler), to try the script
#
# A stage that fails is no end: the report says what failed, with the end of its output; all output is in results/STAGE.log.
# RESULTS names another folder. Nothing outside that folder is written.
set -uo pipefail
cd "$(dirname "$0")"
here=$PWD
results=$(realpath -m "${RESULTS:-results}")
mkdir -p "$results"
report=$results/report.txt
export CUDA_CACHE_PATH=$results/.cuda XDG_CACHE_HOME=$results/.cache UNMASK_TEST_GPU=${UNMASK_TEST_GPU:-1}
card=$UNMASK_TEST_GPU
passed=0 failed=0

say() { printf '%s\n' "$*" | tee -a "$report"; }
section() { say ""; say "== $* ($(date -u +%H:%M:%S))"; }

# try NAME SECONDS COMMAND...: runs a command for at most so long, its output to the stage's log, and reports how it ended.
try() {
    local name=$1 limit=$2 began=$SECONDS code
    shift 2
    printf '\n$ %s\n' "$*" >> "$log"
    timeout "$limit" "$@" > "$results/.out" 2>&1
    code=$?
    cat "$results/.out" >> "$log"
    if [ $code = 0 ]; then
        passed=$((passed + 1))
        say "pass $name ($((SECONDS - began)) s)"
    else
        failed=$((failed + 1))
        say "FAIL $name: status $code after $((SECONDS - began)) s"
        grep -aE '^ *--- FAIL|Error:|expected|actual|Messages:|panic:|error' "$results/.out" | head -n 20 | sed 's/^/     | /' | tee -a "$report"
        tail -n 8 "$results/.out" | sed 's/^/     > /' | tee -a "$report"
    fi
    return $code
}

# tests PACKAGE SECONDS ARGUMENTS...: runs a package's tests in its folder.
tests() {
    local package=$1 limit=$2 name=${1//\//-}
    [ "$package" = . ] && name=unmask
    shift 2
    [ -e "bin/$name.test" ] || { say "skip: bin/$name.test was not packed"; return 0; }
    (cd "$package" && try "$name $*" "$limit" "$here/bin/$name.test" -test.count=1 "$@"; echo "$passed $failed" > "$results/.count")
    read -r passed failed < "$results/.count"
}

# emulate names the driver library that the tests have built.
emulate() {
    [ "$card" = 0 ] || return 0
    (cd backend/cuda && "$here/bin/backend-cuda.test" -test.run '^TestName$' > /dev/null 2>&1)
    UNMASK_CUDA_LIBRARY=$(ls -t "$XDG_CACHE_HOME"/unmask-fakecuda/*.so 2> /dev/null | head -n 1)
    export UNMASK_CUDA_LIBRARY
    [ -n "$UNMASK_CUDA_LIBRARY" ] || { say "no emulated GPU: is there a C++ compiler?"; exit 1; }
}

text() { # BATCH PRECISION DEVICE: a run of the embedded model
    local size="-n 16 --steps 32"
    [ "$card" = 1 ] || size="-n 3 --length 16 --steps 3"
    bin/unmask text --device "$3" --precision "$2" --batch "$1" --seed 1 --json $size | sed 's/"seconds":[^,}]*,//'
}

same() { try "$1" 10 bash -c '[ -s "$0" ] && cmp "$0" "$1"' "$2" "$3"; }

alive() {
    cat VERSION >> "$report"
    [ "$card" = 0 ] || nvidia-smi 2>&1 | sed -n 1,15p | tee -a "$report"
    [ "$card" = 0 ] || nvidia-smi -q > "$results/nvidia-smi-q.txt" 2>&1
    try "the driver is found" 60 bin/unmask version && tail -n +2 "$results/.out" | tee -a "$report"
    try "first start" 300 bin/unmask text --device cuda -n 1 --length 16 --steps 2 || return
    try "second start" 300 bin/unmask text --device cuda -n 1 --length 16 --steps 2
}

kernels() { # the suite, tiles, copies, graphs, choosing, published sizes
    if [ "$card" = 1 ]; then
        tests backend/backendtest 540 -test.run 'CUDA'
        tests backend/cuda 540 -test.run 'TestTiles|TestLinearHeads|TestMatMul|TestPack|TestConv|TestCopies|TestChoose|TestHeadOf|TestVisit|TestArguments|TestResults|TestLarge|TestStaging|TestGoroutines|TestGraphBits|TestPTX'
        tests backend/cuda 540 -test.run 'TestPublished' -test.v
    else
        tests backend/cuda 540 -test.run 'TestTiles|TestGraphBits|TestPublished'
    fi
}

networks() { # the packs, the demo models' frozen tokens, logits of the published sizes
    local package which=.
    [ "$card" = 1 ] || which=//cuda/
    for package in dit vit media/codecs/vqgan families/llama research/metrics/gpt2 research/metrics/inception; do
        tests "$package" 300 -test.run $which -test.skip '^TestBadConfigs$/^unknown$' # which lists the kinds of all packages
    done
    [ "$card" = 1 ] || return 0
    tests . 300 -test.run 'GPU'
    tests bench 300 -test.run 'GPUAtPublishedSizes' -test.v
}

bits() { # the same tokens in any batch, twice, and in float32 the processor's
    local p b
    for p in f32 bf16 int8; do
        for b in 1 3 16 16; do
            text $b $p cuda > "$results/.$p.$b" 2>> "$log"
            [ -e "$results/$p.first" ] || mv "$results/.$p.$b" "$results/$p.first"
            [ -e "$results/.$p.$b" ] && same "$p, batch $b gives the tokens of batch 1" "$results/$p.first" "$results/.$p.$b"
        done
    done
    # Sums in another order end in other bits, so log-probabilities are left out.
    text 16 f32 cpu 2>> "$log" | sed 's/"logprobs":[^]]*],//' > "$results/.cpu"
    sed 's/"logprobs":[^]]*],//' "$results/f32.first" > "$results/.f32.tokens"
    same "f32 gives the processor's tokens" "$results/.f32.tokens" "$results/.cpu"
    rm -f "$results"/*.first
}

memory() { # compute-sanitizer, where there is one: allocations of these tests are exact
    command -v compute-sanitizer > /dev/null || { say "skip: no compute-sanitizer here"; return 0; }
    local suite=$here/bin/backend-backendtest.test
    (cd backend/backendtest && try "memcheck" 300 compute-sanitizer --tool memcheck --error-exitcode 1 "$suite" -test.run 'TestCUDA/(Linear|Attention|Head|Conv)'
    try "racecheck" 200 compute-sanitizer --tool racecheck --error-exitcode 1 "$suite" -test.run 'TestCUDA/(Linear|Attention|HeadStats|Conv|GroupNorm)$'
    try "memcheck of tiles" 300 compute-sanitizer --tool memcheck --error-exitcode 1 "$here/bin/backend-cuda.test" -test.run 'TestTiles'
    echo "$passed $failed" > "$results/.count")
    read -r passed failed < "$results/.count"
}

tiles() { # every tile at the published shapes: those in linear.go and head.go are fitted to these
    local times=20x
    [ "$card" = 1 ] || times=1x
    (cd backend/cuda && try "every tile" 540 "$here/bin/backend-cuda.test" -test.run '^$' -test.bench Tiles -test.benchtime $times
    echo "$passed $failed" > "$results/.count")
    read -r passed failed < "$results/.count"
    grep -a '^BenchmarkTiles' "$results/.out" > "$results/tiles.txt"
    say "shapes where another tile than the chosen one was faster by 5 % (TFLOP/s: the best, the chosen):"
    awk '{ n = $1; sub(/^BenchmarkTiles\//, "", n); sub(/-[0-9]+$/, "", n); tile = n; sub(/.*\//, "", tile); sub(/\/[^\/]*$/, "", n)
           if ($5 > best[n]) { best[n] = $5; which[n] = tile } if ($7 == 1) { chosen[n] = $5; by[n] = tile } }
         END { for (n in best) if (best[n] > 1.05 * chosen[n]) printf "  %-32s %-8s %8.4g   %-8s %8.4g\n", n, which[n], best[n], by[n], chosen[n] }' "$results/tiles.txt" | sort | tee -a "$report"
}

# traced NAME COMMAND...: a run with a trace, whose longest kernels the report shows.
traced() {
    local name=$1
    shift
    try "trace of $name" 300 env UNMASK_CUDA_TRACE="$results/trace-$name.csv" "$@"
    head -n 24 "$results/trace-$name.csv" 2> /dev/null | tee -a "$report"
}

speed() { # kernels by themselves, then passes and runs
    if [ "$card" = 0 ] || [ ! -e bin/bench.test ]; then
        traced text bin/unmask text --device cuda --precision bf16 -n 1 --length 80 --steps 2
        return
    fi
    local batch
    cd bench || return
    for batch in 16 1; do
        traced "lm12-bf16-batch$batch" "$here/bin/bench.test" -test.run '^$' -test.bench "GPU\$/forward/lm12/bf16/batch$batch\$" -test.benchtime 5x
    done
    traced vit20-bf16-batch64 "$here/bin/bench.test" -test.run '^$' -test.bench 'GPU$/forward/vit20/bf16/batch64$' -test.benchtime 5x
    try "passes and runs" 540 "$here/bin/bench.test" -test.run '^$' -test.bench 'GPU$/(forward|hybrid32)/.*/(bf16|f32)' -test.benchtime 1s
    grep -a '^Benchmark' "$results/.out" | tee -a "$report"
    cd "$here" || return
}

why() { # what the multiprocessors wait for, where there is ncu
    command -v ncu > /dev/null || { say "skip: no ncu here"; return 0; }
    try "profile" 400 ncu --clock-control none -k regex:unmask_ -c 140 --csv --page raw --section SpeedOfLight --section Occupancy --section WarpStateStats \
        --log-file "$results/ncu.csv" bin/bench.test -test.run '^$' -test.bench 'GPU$/forward/lm12/bf16/batch16$' -test.benchtime 1x
}

peers() { # PyTorch on the same card in the same run, where there is one
    python3 -c 'import torch; assert torch.cuda.is_available()' 2>> "$log" || { say "skip: no PyTorch with a GPU here"; return 0; }
    try "peers" 580 env UNMASK_BENCH=bin/bench.test python3 tools/peers/gpu.py --rounds 1 --shapes lm12x16,lm12x1
    cat "$results/.out" | tee -a "$report"
}

stages=${*:-alive kernels networks bits memory tiles speed why peers}
emulate
say "unmask on $([ "$card" = 1 ] && echo "a GPU" || echo "an emulated GPU: no figure means anything"), $(date -u)"
for stage in $stages; do
    case " alive kernels networks bits memory tiles speed why peers " in
    *" $stage "*) ;;
    *) say "stage is $stage, want alive, kernels, networks, bits, memory, tiles, speed, why or peers"; exit 2 ;;
    esac
    log=$results/$stage.log
    : > "$log"
    section "$stage"
    $stage
done
say ""
say "$passed passed, $failed failed"
rm -rf "$results/.out" "$results/.count" "$results"/.f32.* "$results"/.bf16.* "$results"/.int8.* "$results/.cpu"
[ $failed = 0 ]
