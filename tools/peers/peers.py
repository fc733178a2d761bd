"""Runs onnxruntime, PyTorch and unmask on the same shapes in turn and prints ratios.

    python3 -m venv venv && venv/bin/pip install onnxruntime onnx torch numpy
    venv/bin/python tools/peers/peers.py [--threads 2] [--rounds 5] [--shapes lm12,vit20] [--out bench/results/peers.json]

A round runs each program in a process of its own, one after the other, so that no worker of
one spins while another is measured; a program's figure is the median of its rounds, and each
round's the median of a few calls after one that is not counted. Needs Go to build unmask.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import graphs
import needs
import results

HERE = os.path.dirname(os.path.abspath(__file__))


def onnxruntime_call(shape, threads):
    import numpy as np
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    if shape in graphs.SHAPES:
        cfg, batch = graphs.SHAPES[shape]
        model, feed = graphs.onnx_network(shape), {"tokens": np.zeros((batch, cfg["length"]), np.int64)}
    else:
        side, channels = graphs.CONVS[shape]
        model, feed = graphs.onnx_conv(shape), {"x": np.ones((1, channels, side, side), np.float32)}
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feed)


def torch_call(shape, threads, dtype):
    import torch
    torch.set_num_threads(threads)
    if shape in graphs.SHAPES:
        run, tokens = graphs.torch_network(shape, getattr(torch, dtype))
        return torch.inference_mode()(lambda: run(tokens))
    if shape in graphs.DECODERS:
        return graphs.torch_decode(shape)
    return graphs.torch_conv(shape)


PEERS = {
    "onnxruntime f32": onnxruntime_call,
    "PyTorch f32": lambda shape, threads: torch_call(shape, threads, "float32"),
    "PyTorch bf16": lambda shape, threads: torch_call(shape, threads, "bfloat16"),
}


def measure(peer, shape, threads, calls):
    """Prints the median seconds of a call."""
    call = PEERS[peer](shape, threads)
    call()
    seconds = []
    for _ in range(calls):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    print(json.dumps(statistics.median(seconds)))


def peer_seconds(peer, shape, a):
    command = [sys.executable, os.path.abspath(__file__), "--one", peer, "--shapes", shape,
               "--threads", str(a.threads), "--calls", str(a.calls)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def unmask_seconds(binary, name, a):
    command = [binary, "bench", "--json", "--only", name, "--threads", str(a.threads), "--samples", str(a.calls)]
    line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(line)["seconds"]


def contenders(binary, shape, a):
    """Name -> a function that measures it once."""
    if shape in graphs.DECODERS:
        peers, ours = ["PyTorch f32"], {"unmask f32": f"decode/{graphs.DECODERS[shape]}"}
    elif shape in graphs.CONVS:
        peers, ours = ["onnxruntime f32", "PyTorch f32"], {"unmask f32": f"conv/{shape}"}
    else:
        peers, ours = list(PEERS), {f"unmask {p}": f"forward/{shape}/{p}" for p in ("f32", "bf16", "int8")}
    out = {name: (lambda n=name: peer_seconds(n, shape, a)) for name in peers if name in a.peers.split(",")}
    out.update({name: (lambda n=n: unmask_seconds(binary, n, a)) for name, n in ours.items()})
    return out


def compare(binary, shape, a):
    """Prints the table of a shape, and returns its rows."""
    runs = contenders(binary, shape, a)
    seconds = {name: [] for name in runs}
    for _ in range(a.rounds):
        for name, run in runs.items():
            seconds[name].append(run())
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    ours = [name for name in medians if name.startswith("unmask")]
    title = f"conv {shape}" if shape in graphs.CONVS else shape
    print(f"\n{title}, {a.threads} threads, median of {a.rounds} rounds\n")
    print("| | seconds | fastest round | " + " | ".join(f"{n} is as fast" for n in ours) + " |")
    print("|---|---|---|" + "---|" * len(ours))
    for name, m in medians.items():
        ratios = " | ".join(f"{m / medians[n]:.2f} x" for n in ours)
        print(f"| {name} | {m:.4f} | {min(seconds[name]):.4f} | {ratios} |", flush=True)
    return [{"name": f"{shape}/{name}", "shape": shape, "program": name, "seconds": s} for name, s in seconds.items()]


def main():
    p = argparse.ArgumentParser(description="Compare unmask with onnxruntime and PyTorch on the same shapes.")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--calls", type=int, default=3, help="calls of a round")
    p.add_argument("--shapes", default="lm12,vit20,vit20x8,256,128,decode",
                   help="lm12, vit20, vit20x8; 256 and 128 are convolutions; decode is VQGAN's decoder")
    p.add_argument("--peers", default=",".join(PEERS), help=f"some of: {', '.join(PEERS)}")
    p.add_argument("--unmask", help="a built unmask; by default it is built")
    p.add_argument("--out", metavar="FILE", help="keep every round in a file of bench/results")
    p.add_argument("--one", choices=PEERS, help=argparse.SUPPRESS)
    a = p.parse_args()
    needs.need("onnx", "onnxruntime", "torch")
    shapes = a.shapes.split(",")
    for shape in shapes:
        if not any(shape in known for known in (graphs.SHAPES, graphs.CONVS, graphs.DECODERS)):
            p.error(f"unknown shape {shape!r}, allowed are {', '.join([*graphs.SHAPES, *graphs.CONVS, *graphs.DECODERS])}")
    for peer in a.peers.split(","):
        if peer not in PEERS:
            p.error(f"unknown peer {peer!r}, allowed are {', '.join(PEERS)}")
    if a.one:
        measure(a.one, shapes[0], a.threads, a.calls)
        return
    with tempfile.TemporaryDirectory() as folder:
        binary = a.unmask
        if not binary:
            binary = os.path.join(folder, "unmask")
            subprocess.run(["go", "build", "-o", binary, "./cmd/unmask"], cwd=os.path.join(HERE, "..", ".."), check=True)
        rows = [row for shape in shapes for row in compare(binary, shape, a)]
    if a.out:
        results.write(a.out, rows, threads=a.threads)


if __name__ == "__main__":
    main()
