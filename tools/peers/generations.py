"""Whole generations: the published sampler loops in plain PyTorch against `unmask text` and `unmask image`.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python tools/peers/generations.py [--threads 2] [--steps 32] [--image-steps 20]

SDTT's loop (MDLM's ancestral one) computes logits and probabilities of every position at every step and draws
a token everywhere, in float32 or float64; MAGE's draws a code everywhere and masks the least confident again.
The networks have the published sizes and random weights: they change no time. Loading and the picture's
decoder are left out. Each program is a process of its own, one after another. Processor seconds are of all
threads, so other work on the machine changes them less than it changes seconds.
"""
import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time

import graphs
import needs

HERE = os.path.dirname(os.path.abspath(__file__))


def draw(torch, weights):
    """An index of each row, by weights that need no sum, through exponential noise in their own type."""
    noise = 1e-10 - (torch.rand_like(weights) + 1e-10).log()
    return (weights / noise).argmax(-1)


def sdtt_loop(torch, run, steps, dtype):
    """Ancestral sampling with the log-linear schedule: at time t a position is masked with probability t."""
    length, mask = graphs.LM12["length"], graphs.LM12["vocab"] - 1
    x = torch.full((1, length), mask)
    for i in range(steps):
        now, later = 1 - i / steps, 1 - (i + 1) / steps
        logits = run(x)
        logits[..., mask] = -math.inf
        p = logits.log_softmax(-1).to(dtype).exp() * (now - later)
        p[..., mask] = later
        x = torch.where(x == mask, draw(torch, p), x)
    logits = run(x)
    logits[..., mask] = -math.inf
    return torch.where(x == mask, logits.argmax(-1), x)


def mage_loop(torch, run, steps, temperature=6.0):
    """A code everywhere, then the least confident masked again; noise on the confidence falls to 0."""
    cells, mask = graphs.VIT20["length"] - 1, graphs.VIT20["vocab"] - 1
    x = torch.full((1, cells), mask)
    first = torch.full((1, 1), mask - 1)
    for i in range(steps):
        done = (i + 1) / steps
        logits = run(torch.cat([first, x], 1))[:, 1:]
        drawn = torch.distributions.Categorical(logits=logits).sample()
        unknown = x == mask
        drawn = torch.where(unknown, drawn, x)
        p = logits.softmax(-1).gather(-1, drawn[..., None])[..., 0]
        p = torch.where(unknown, p, torch.inf)
        gumbel = -(-torch.rand_like(p).clamp_min(1e-20).log()).log()
        confidence = p.log() + temperature * (1 - done) * gumbel
        n = max(1, min(int(unknown.sum()) - 1, math.floor(cells * math.cos(math.pi / 2 * done))))
        cut = confidence.sort(-1).values[:, n:n + 1]
        x = drawn if i == steps - 1 else torch.where(confidence < cut, mask, drawn)
    return x


def torch_loop(kind, steps, threads):
    import torch
    torch.set_num_threads(threads)
    run, _ = graphs.torch_network("vit20" if kind == "mage" else "lm12", torch.float32)
    with torch.inference_mode():
        loop = (lambda n: mage_loop(torch, run, n)) if kind == "mage" else (
            lambda n: sdtt_loop(torch, run, n, getattr(torch, kind)))
        loop(1)
        wall, cpu = time.perf_counter(), time.process_time()
        loop(steps)
        return time.perf_counter() - wall, time.process_time() - cpu


def unmask_loop(binary, arguments, steps, threads):
    """Seconds as --json has them, and processor seconds less those of loading: a run of one step, of one
    position where the model allows it."""
    def once(n, *more):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run([binary, *arguments, *more, "--steps", str(n), "--threads", str(threads), "--json"],
                             check=True, capture_output=True, text=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return json.loads(out)["seconds"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall, cpu = once(steps)
    if arguments[0] == "text":
        return wall, cpu - once(1, "--length", "1")[1]
    return wall, (cpu - once(1)[1]) * steps / (steps - 1)


def table(title, rows):
    ours = [name for name in rows if name.startswith("unmask")]
    print(f"\n{title}\n")
    print("| | seconds | processor seconds | " + " | ".join(f"{n}, processor time" for n in ours) + " |")
    print("|---|---|---|" + "---|" * len(ours))
    for name, (wall, cpu) in rows.items():
        print(f"| {name} | {wall:.1f} | {cpu:.1f} | " + " | ".join(f"{cpu / rows[n][1]:.2f} x" for n in ours) + " |",
              flush=True)


def main():
    p = argparse.ArgumentParser(description="Compare whole generations with the published loops in PyTorch.")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--steps", type=int, default=32, help="of a text")
    p.add_argument("--image-steps", type=int, default=20)
    p.add_argument("--only", choices=["text", "image"])
    p.add_argument("--unmask", help="a built unmask; by default it is built")
    p.add_argument("--one", choices=["float32", "float64", "mage"], help=argparse.SUPPRESS)
    a = p.parse_args()
    needs.need("torch")
    if min(a.steps, a.image_steps) < 2:
        p.error("steps are 1, want 2 or more")
    if a.one:
        print(json.dumps(torch_loop(a.one, a.image_steps if a.one == "mage" else a.steps, a.threads)))
        return

    def peer(kind):
        command = [sys.executable, os.path.abspath(__file__), "--one", kind, "--threads", str(a.threads),
                   "--steps", str(a.steps), "--image-steps", str(a.image_steps)]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    with tempfile.TemporaryDirectory() as folder:
        def go(*arguments):
            subprocess.run(["go", *arguments], cwd=os.path.join(HERE, "..", ".."), check=True)
        binary = a.unmask or os.path.join(folder, "unmask")
        if not a.unmask:
            go("build", "-o", binary, "./cmd/unmask")
        if a.only != "image":
            go("run", "./tools/makemodel", "-like", "lm12", os.path.join(folder, "lm12"))
            text = ["text", "--model", os.path.join(folder, "lm12"), "--sampler"]
            table(f"SDTT's size, 1024 tokens, {a.steps} steps, {a.threads} threads", {
                "PyTorch, SDTT's loop, 64 bit": peer("float64"),
                "PyTorch, SDTT's loop, 32 bit": peer("float32"),
                "unmask vanilla": unmask_loop(binary, [*text, "vanilla"], a.steps, a.threads),
                "unmask hybrid": unmask_loop(binary, [*text, "hybrid"], a.steps, a.threads)})
        if a.only != "text":
            go("run", "./tools/makemodel", "-like", "mage", os.path.join(folder, "mage"))
            image = ["image", "--model", os.path.join(folder, "mage"), "-n", "1", "--schedule", "mage",
                     "--sheet", os.path.join(folder, "sheet.png"), "--sampler"]
            table(f"MAGE-B's size, 256 codes, {a.image_steps} steps, {a.threads} threads", {
                "PyTorch, MAGE's loop": peer("mage"),
                "unmask maskgit": unmask_loop(binary, [*image, "maskgit"], a.image_steps, a.threads),
                "unmask moment": unmask_loop(binary, [*image, "moment"], a.image_steps, a.threads)})


if __name__ == "__main__":
    main()
