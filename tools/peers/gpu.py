"""Times PyTorch and unmask on one GPU in the same run and prints ratios.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python tools/peers/gpu.py [--rounds 3] [--shapes lm12x16,vit20x64]

A round runs each program in a process of its own, one after the other; a figure is the median of the rounds. A pass
is that of bench/gpu_test.go: every position masked, random weights, bfloat16. PyTorch's ends with the logits written
out, as its samplers use them; attention is scaled_dot_product_attention, or with "plain" its two products and the softmax. The
sampler is a straightforward one: all logits, softmax, a draw at every position, and what a fixed order opens.
Needs Go, or a built test binary of package bench that UNMASK_BENCH names (bench/card/pack.sh makes one).
"""
import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys

import graphs
import needs

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = {"lm12x1": ("lm12", 1), "lm12x16": ("lm12", 16), "vit20x1": ("vit20", 1), "vit20x64": ("vit20", 64)}
PEERS = ("eager plain", "eager", "compiled")
STEPS = 32


def seconds(call, calls):
    """The median seconds of calls, after three that are not counted."""
    import time
    import torch
    took = []
    for i in range(calls + 3):
        torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
    return statistics.median(took[3:])


def measure(peer, shape, calls):
    """Prints the seconds of a pass and of a run of STEPS steps."""
    import torch
    name, batch = SHAPES[shape]
    forward, tokens = graphs.torch_network(name, torch.bfloat16, "cuda", batch, plain="plain" in peer)
    if "compiled" in peer:
        forward = torch.compile(forward)
    length = tokens.shape[1]
    order = torch.randperm(length, generator=torch.Generator().manual_seed(0)).cuda()

    @torch.inference_mode()
    def run():
        state = tokens.clone()
        for step in range(STEPS):
            p = torch.softmax(forward(state).float(), -1)
            drawn = torch.multinomial(p.view(-1, p.shape[-1]), 1).view(batch, length)
            opened = order[length * step // STEPS:length * (step + 1) // STEPS]
            state[:, opened] = drawn[:, opened]
        return state

    with torch.inference_mode():
        print(json.dumps([seconds(lambda: forward(tokens), calls), seconds(run, max(1, calls // 5))]))


def output(command, folder=None):
    """What a program prints; if it fails, the end of that is the error."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        sys.exit("\n".join([f"status {done.returncode} of {shlex.join(command)}", *(done.stdout + done.stderr).splitlines()[-20:]]))
    return done.stdout


def peer_seconds(peer, shape, calls):
    command = [sys.executable, os.path.abspath(__file__), "--one", peer, "--shapes", shape, "--calls", str(calls)]
    return json.loads(output(command).splitlines()[-1])


def unmask_seconds(kind, shape):
    """Seconds of a Go benchmark: kind is "forward", or "hybrid32" with a suffix."""
    kind, _, suffix = kind.partition("/")
    name, batch = SHAPES[shape]
    pattern = "^BenchmarkGPU$/^%s$/^%s$/^bf16$/^batch%d$" % (kind, name, batch) + (f"/^{suffix}$" if suffix else "")
    command, folder = ["go", "test", "-run", "-", "-bench", pattern, "-benchtime", "2s", "./bench"], os.path.join(HERE, "..", "..")
    if built := os.environ.get("UNMASK_BENCH"):
        command, folder = [os.path.abspath(built), "-test.run", "-", "-test.bench", pattern, "-test.benchtime", "2s"], None
    out = output(command, folder)
    found = re.search(r"\s([0-9.]+) ns/op", out)
    if not found:
        sys.exit("no GPU for unmask:\n" + out)
    return float(found[1]) / 1e9


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--shapes", default="lm12x16,vit20x64")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--calls", type=int, default=20)
    p.add_argument("--one", help=argparse.SUPPRESS)
    a = p.parse_args()
    needs.need("torch")
    if a.one:
        measure(a.one, a.shapes, a.calls)
        return
    print(f"{'shape':10} {'pass of':24} {'seconds':>10} {'x unmask':>9}   {'run of 32':10} {'seconds':>10} {'x unmask':>9}")
    for shape in a.shapes.split(","):
        rounds = []
        for _ in range(a.rounds):
            r = {"unmask": [unmask_seconds("forward", shape), unmask_seconds("hybrid32/cache0", shape)],
                 "unmask +cache": [None, unmask_seconds("hybrid32/cache1", shape)]}
            r |= {f"PyTorch {peer}": peer_seconds(peer, shape, a.calls) for peer in PEERS}
            rounds.append(r)
        for peer in rounds[0]:
            line = f"{shape:10} {peer:24}"
            for i in range(2):
                if rounds[0][peer][i] is None:
                    line += " " * 36
                    continue
                took, own = (statistics.median(r[q][i] for r in rounds) for q in (peer, "unmask"))
                line += f" {took:10.4f} {took / own:9.2f}" + " " * 15
            print(line.rstrip())


if __name__ == "__main__":
    main()
