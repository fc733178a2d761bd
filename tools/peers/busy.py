"""A generation beside busy processes, against onnxruntime's passes beside the same ones.

    python3 -m venv venv && venv/bin/pip install onnxruntime onnx numpy
    venv/bin/python tools/peers/busy.py [--busy 2] [--threads 2] [--steps 20] [--rounds 5] [--only image]

Processes that do nothing but count run all the time. A round is a generation by unmask (every pass and all
that its sampler does, as --json says) and as many passes of a network of these shapes by onnxruntime, one
right after the other. The ratio of a round is unmask's seconds by onnxruntime's: what is asked for is a
median of at most 1.2. Weights are random: they change no time. Exits with 1 where a median is above.
"""
import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time

import needs

HERE = os.path.dirname(os.path.abspath(__file__))
MOST = 1.2
MODELS = {"image": ("mage", "vit20"), "text": ("lm12", "lm12")}  # of tools/makemodel, of graphs.py


def count():
    while True:
        pass


def passes(shape, steps, threads):
    """Prints the seconds of the passes, after one that is not counted."""
    import peers
    call = peers.onnxruntime_call(shape, threads)
    call()
    began = time.perf_counter()
    for _ in range(steps):
        call()
    print(time.perf_counter() - began)


def theirs(kind, a):
    command = [sys.executable, os.path.abspath(__file__), "--one", kind, "--steps", str(a.steps),
               "--threads", str(a.threads)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def ours(binary, kind, folder, a):
    command = [binary, kind, "--model", os.path.join(folder, kind), "--json", "--steps", str(a.steps),
               "--threads", str(a.threads)]
    if kind == "image":
        command += ["-n", "1", "--sheet", os.path.join(folder, "sheet.png")]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["seconds"]


def compare(binary, kind, folder, a):
    """Prints the rounds and returns the median ratio."""
    print(f"\n{kind}: {a.steps} steps on {a.threads} threads beside {a.busy} busy processes\n")
    print("| round | unmask, s | onnxruntime's passes, s | ratio |\n|---|---|---|---|")
    ratios = []
    for i in range(a.rounds):
        mine, other = ours(binary, kind, folder, a), theirs(kind, a)
        ratios.append(mine / other)
        print(f"| {i + 1} | {mine:.2f} | {other:.2f} | {ratios[-1]:.2f} |", flush=True)
    median = statistics.median(ratios)
    print(f"\nmedian ratio {median:.2f}, want at most {MOST}", flush=True)
    return median


def main():
    p = argparse.ArgumentParser(description="Compare a generation with onnxruntime's passes on a busy machine.")
    p.add_argument("--busy", type=int, default=2, help="processes beside it")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", choices=MODELS)
    p.add_argument("--unmask", help="a built unmask; by default it is built")
    p.add_argument("--one", choices=MODELS, help=argparse.SUPPRESS)
    a = p.parse_args()
    needs.need("onnx", "onnxruntime", "numpy")
    if min(a.steps, a.rounds, a.threads) < 1 or a.busy < 0:
        p.error("--steps, --rounds and --threads are at least 1, --busy at least 0")
    if a.one:
        passes(MODELS[a.one][1], a.steps, a.threads)
        return
    with tempfile.TemporaryDirectory() as folder:
        def go(*arguments):
            subprocess.run(["go", *arguments], cwd=os.path.join(HERE, "..", ".."), check=True)
        binary = a.unmask or os.path.join(folder, "unmask")
        if not a.unmask:
            go("build", "-o", binary, "./cmd/unmask")
        kinds = [a.only] if a.only else list(MODELS)
        for kind in kinds:
            go("run", "./tools/makemodel", "-like", MODELS[kind][0], os.path.join(folder, kind))
        beside = [multiprocessing.Process(target=count, daemon=True) for _ in range(a.busy)]
        for one in beside:
            one.start()
        try:
            medians = [compare(binary, kind, folder, a) for kind in kinds]
        finally:
            for one in beside:
                one.terminate()
    sys.exit(max(medians) > MOST)


if __name__ == "__main__":
    main()
