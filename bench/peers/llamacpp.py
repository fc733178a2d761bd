"""Times a full pass of the same layers in llama.cpp and in unmask, in turn, and prints ratios.

    python3 -m venv venv
    CMAKE_ARGS="-DGGML_NATIVE=ON" venv/bin/pip install --no-binary llama-cpp-python llama-cpp-python==0.3.16
    venv/bin/python bench/peers/llamacpp.py [--threads 2] [--rounds 5] [--types q4_k,q8_0]

Both read the same file: two of LLaDA-8B's 32 layers with random weights, which `unmask bench` measures as
forward/llama8b. llama.cpp decodes 256 tokens in one non-causal batch and writes the logits of all of them;
unmask's pass leaves hidden states, and its head of 1024 rows is a hundredth of the work. A round runs each
program in a process of its own; a figure is the median of the rounds.

Building llama.cpp takes a quarter of an hour of a processor.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = 256


def decode(path, threads, calls):
    """Prints the median seconds of a pass over ROWS tokens, after one that is not counted."""
    import llama_cpp as l
    l.llama_backend_init()
    m = l.llama_model_default_params()
    m.n_gpu_layers = 0
    model = l.llama_model_load_from_file(path.encode(), m)
    if not model:
        sys.exit(f"llama.cpp does not load {path}")
    c = l.llama_context_default_params()
    c.n_ctx = c.n_batch = c.n_ubatch = ROWS
    c.n_threads = c.n_threads_batch = threads
    c.attention_type = l.LLAMA_ATTENTION_TYPE_NON_CAUSAL
    context = l.llama_init_from_model(model, c)
    if not context:
        sys.exit("llama.cpp makes no context")
    batch = l.llama_batch_init(ROWS, 0, 1)
    batch.n_tokens = ROWS
    for i in range(ROWS):
        batch.token[i], batch.pos[i] = i, i
        batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 1, 0, 1
    seconds = []
    for _ in range(calls + 1):
        l.llama_memory_clear(l.llama_get_memory(context), True)
        began = time.perf_counter()
        if l.llama_decode(context, batch):
            sys.exit("llama.cpp does not decode the batch")
        l.llama_synchronize(context)
        seconds.append(time.perf_counter() - began)
    print(json.dumps(statistics.median(seconds[1:])))


def last(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--calls", type=int, default=3)
    p.add_argument("--types", default="q4_k,q8_0")
    p.add_argument("--one", metavar="FILE", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.one:
        return decode(a.one, a.threads, a.calls)
    root = os.path.dirname(os.path.dirname(HERE))
    with tempfile.TemporaryDirectory() as folder:
        unmask, maker = os.path.join(folder, "unmask"), os.path.join(folder, "make8b")
        subprocess.run(["go", "build", "-o", unmask, "./cmd/unmask"], check=True, cwd=root)
        subprocess.run(["go", "build", "-o", maker, "./bench/make8b"], check=True, cwd=root)
        for kind in a.types.split(","):
            path = os.path.join(folder, kind + ".gguf")
            subprocess.run([maker, "-layers", "2", path, kind], check=True)
            theirs, ours, shares = [], [], []
            for _ in range(a.rounds):
                theirs.append(json.loads(last([sys.executable, os.path.abspath(__file__), "--one", path,
                                               "--threads", str(a.threads), "--calls", str(a.calls)])))
                one = json.loads(last([unmask, "bench", "--json", "--only", "forward/llama8b/" + kind,
                                       "--threads", str(a.threads), "--samples", str(a.calls)]))
                ours.append(one["seconds"])
                shares.append(one["share"])
            t, o = statistics.median(theirs), statistics.median(ours)
            share = statistics.median(shares)
            print(f"{kind}: llama.cpp {t:.3f} s, {share * o / t:.0%} of the int8 ceiling; unmask {o:.3f} s, {share:.0%}: "
                  f"{t / o:.2f} times as fast")


if __name__ == "__main__":
    main()
