"""Times AntiBERTy's trained weights in unmask, onnxruntime and PyTorch, in turn, and prints ratios.

    python3 -m venv venv && venv/bin/pip install torch transformers onnx onnxruntime numpy
    venv/bin/python tools/peers/encoders.py [--threads 2] [--rounds 3] [--sequences 64] [--variants 100]

A pass: the logits of all positions of 64 heavy chains of 122 tokens. An infill: 100 variants of one chain whose
three loops, 40 residues, are masked and filled in 16 steps by MaskGIT's rule; PyTorch does it with all variants
in one batch. onnxruntime runs a graph of fused operators, the way it likes best. The weights come from the package antiberty 0.1.3 (pip download, 97 MB).

A round runs each program in a process of its own, one after the other; a round's figure is the median of a few
calls after one that is not counted, and a program's the median of its rounds. Needs Go to build unmask.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import results

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path += [os.path.join(ROOT, "research", "trained"), os.path.join(ROOT, "internal", "parity")]
STEPS, TEMPERATURE = 16, 6.0  # of unmask's recipe, falling linearly to 0
PLAN = {  # what is timed -> who does it
    "pass": ["onnxruntime f32", "PyTorch f32", "PyTorch bf16", "unmask f32", "unmask bf16", "unmask int8"],
    "infill": ["PyTorch f32", "PyTorch bf16", "unmask f32", "unmask bf16", "unmask int8"],
}


def fetch(folder, unmask):
    """The folders of the weights: as the package has them, and as unmask reads them."""
    import trained
    trained.PACKAGES, trained.MODELS = ["antiberty==0.1.3"], {"antiberty": trained.MODELS["antiberty"]}
    trained.fetch(folder, unmask)


def write_rows(folder, a):
    """Sequences in tokens, with the loops of trastuzumab masked."""
    import trained
    from trained_encoders import TRASTUZUMAB
    words = open(os.path.join(folder, "antiberty", "trained_models", "vocab.txt")).read().split()
    letters = list(TRASTUZUMAB)
    for start, end in trained.loops(TRASTUZUMAB):
        letters[start:end] = ["[MASK]"] * (end - start)
    row = [words.index(w) for w in ["[CLS]", *letters, "[SEP]"]]
    for name, n in (("pass", a.sequences), ("infill", a.variants)):
        with open(os.path.join(folder, name + ".json"), "w") as f:
            json.dump([row] * n, f)


def network(folder):
    from transformers import BertConfig, BertForMaskedLM
    from trained_encoders import transformer
    return transformer(os.path.join(folder, "antiberty", "trained_models", "AntiBERTy_md_smooth"), BertConfig,
                       BertForMaskedLM)


def torch_call(kind, folder, threads, dtype):
    import torch
    torch.set_num_threads(threads)
    net = network(folder).to(dtype)
    words = open(os.path.join(folder, "antiberty", "trained_models", "vocab.txt")).read().split()
    rows, mask = torch.tensor(json.load(open(os.path.join(folder, kind + ".json")))), words.index("[MASK]")
    special = [i for i, w in enumerate(words) if w.startswith("[")]

    @torch.inference_mode()
    def one_pass():
        return net(rows).logits

    @torch.inference_mode()
    def infill():
        x = rows.clone()
        masked = int((x[0] == mask).sum())
        for n in range(STEPS):
            hidden = x == mask
            logits = net(x).logits[hidden].float()
            logits[:, special] = float("-inf")
            p = logits.softmax(-1)
            drawn = torch.multinomial(p, 1)[:, 0]
            sure = p.gather(1, drawn[:, None])[:, 0].log()
            sure = sure - TEMPERATURE * (1 - (n + 1) / STEPS) * (-torch.rand_like(sure).log()).log()
            left = round(masked * (1 - (n + 1) / STEPS))
            score = torch.full(x.shape, float("-inf")).masked_scatter(hidden, sure)
            open_now = score.topk(int(hidden[0].sum()) - left, -1).indices
            draws = torch.zeros_like(x).masked_scatter(hidden, drawn)
            x.scatter_(1, open_now, draws.gather(1, open_now))
        assert not (x == mask).any()
        return x
    return one_pass if kind == "pass" else infill


def onnxruntime_call(kind, folder, threads):
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(os.path.join(folder, "fused.onnx"), options, providers=["CPUExecutionProvider"])
    feed = {"tokens": numpy.array(json.load(open(os.path.join(folder, kind + ".json"))), numpy.int64)}
    return lambda: session.run(None, feed)


def write_onnx(folder):
    """The same network as a graph whose attention, GELU and layer norms are fused operators, and the check that
    onnxruntime computes what PyTorch does."""
    import graphs
    import torch
    net, g = network(folder), graphs.Graph()
    w = {k: v.numpy() for k, v in net.state_dict().items()}
    rows = json.load(open(os.path.join(folder, "pass.json")))
    eps = net.config.layer_norm_eps

    def linear(x, name):
        return g.op("Add", g.op("MatMul", x, g.constant(w[name + ".weight"].T.copy())), g.constant(w[name + ".bias"]))

    def norm(x, name, skip=None):
        parts = [g.constant(w[name + ".weight"]), g.constant(w[name + ".bias"])]
        if skip is None:
            return g.op("LayerNormalization", x, *parts, axis=-1, epsilon=eps)
        return g.op("SkipLayerNormalization", x, skip, *parts, domain="com.microsoft", epsilon=eps)

    e = "bert.embeddings."
    fixed = w[e + "position_embeddings.weight"][:len(rows[0])] + w[e + "token_type_embeddings.weight"][0]
    x = norm(g.op("Add", g.op("Gather", g.constant(w[e + "word_embeddings.weight"]), "tokens"), g.constant(fixed)),
             e + "LayerNorm")
    for i in range(net.config.num_hidden_layers):
        at = f"bert.encoder.layer.{i}."
        parts = [linear(x, at + "attention.self." + n) for n in ("query", "key", "value")]
        a = g.op("MultiHeadAttention", *parts, domain="com.microsoft", num_heads=net.config.num_attention_heads)
        x = norm(linear(a, at + "attention.output.dense"), at + "attention.output.LayerNorm", x)
        m = linear(g.op("Gelu", linear(x, at + "intermediate.dense"), approximate="none"), at + "output.dense")
        x = norm(m, at + "output.LayerNorm", x)
    h = "cls.predictions."
    x = norm(g.op("Gelu", linear(x, h + "transform.dense"), approximate="none"), h + "transform.LayerNorm")
    logits = linear(x, h + "decoder")
    with open(os.path.join(folder, "fused.onnx"), "wb") as f:
        f.write(g.bytes("antiberty", "tokens", [len(rows), len(rows[0])], logits, "INT64"))
    with torch.inference_mode():
        want = net(torch.tensor(rows[:1])).logits[0].numpy()
    error = abs(onnxruntime_call("pass", folder, 1)()[0][0] - want).max() / abs(want).max()
    assert error < 1e-4, error


def one(name, kind, folder, a):
    """Prints the median seconds of a call."""
    import torch
    call = onnxruntime_call(kind, folder, a.threads) if name.startswith("onnx") else \
        torch_call(kind, folder, a.threads, torch.bfloat16 if name.endswith("bf16") else torch.float32)
    call()
    seconds = []
    for _ in range(a.calls):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    print(statistics.median(seconds))


def seconds_of(name, kind, folder, a):
    if name.startswith("unmask"):
        command = [os.path.join(folder, "encoders"), "-model", os.path.join(folder, "converted", "antiberty"),
                   "-rows", os.path.join(folder, kind + ".json"), "-as", name.split()[1], "-threads", str(a.threads),
                   "-calls", str(a.calls), "-infill", str(STEPS if kind == "infill" else 0)]
    else:
        command = [sys.executable, os.path.abspath(__file__), "--one", name, "--kind", kind, "--cache", folder,
                   "--threads", str(a.threads), "--calls", str(a.calls)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return statistics.median(float(line) for line in out.splitlines())


def ceiling(precision, folder, a):
    """Multiplications and additions a second of a loop of the one instruction that limits a pass."""
    out = subprocess.run([os.path.join(folder, "unmask"), "bench", "--json", "--only", "ceiling/" + precision,
                          "--threads", str(a.threads)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)["rate"] * 1e9


def operations(folder):
    """Multiplications and additions of a pass: those of the matrices and of attention."""
    with open(os.path.join(folder, "antiberty", "trained_models", "AntiBERTy_md_smooth", "config.json")) as f:
        c = json.load(f)
    with open(os.path.join(folder, "pass.json")) as f:
        rows = json.load(f)
    wide, length = c["hidden_size"], len(rows[0])
    layer = 4 * wide * wide + 2 * wide * c["intermediate_size"] + 2 * length * wide
    return 2 * len(rows) * length * (c["num_hidden_layers"] * layer + wide * wide + wide * c["vocab_size"])


def compare(kind, folder, a):
    """Prints the table of a pass or an infill, and returns its rows."""
    seconds, ceilings = {name: [] for name in PLAN[kind]}, {}
    for _ in range(a.rounds):
        for name in seconds:
            seconds[name].append(seconds_of(name, kind, folder, a))
            if kind == "pass" and name.startswith("unmask"):
                ceilings.setdefault(name, []).append(ceiling(name.split()[1], folder, a))
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    ours = [name for name in medians if name.startswith("unmask")]
    what = f"a pass over {a.sequences} sequences" if kind == "pass" else f"{a.variants} variants in {STEPS} steps"
    print(f"\n{what}, {a.threads} threads, median of {a.rounds} rounds\n")
    print("| | seconds | " + " | ".join(f"{n} is as fast" for n in ours) + " |")
    print("|---|---|" + "---|" * len(ours))
    for name, m in medians.items():
        print(f"| {name} | {m:.3f} | " + " | ".join(f"{m / medians[n]:.2f} x" for n in ours) + " |", flush=True)
    for name, rates in ceilings.items():
        share = operations(folder) / medians[name] / statistics.median(rates)
        print(f"{name}: {100 * share:.0f}% of the processor's ceiling")
    work = operations(folder)
    return [{"name": f"{kind}/{name}", "program": name, "seconds": s} |
            ({"share": [work / x / rate for x, rate in zip(s, ceilings[name])]} if name in ceilings else {})
            for name, s in seconds.items()]


def main():
    p = argparse.ArgumentParser(description="Compare trained encoders in unmask, onnxruntime and PyTorch.")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--calls", type=int, default=3, help="calls of a round")
    p.add_argument("--sequences", type=int, default=64)
    p.add_argument("--variants", type=int, default=100)
    p.add_argument("--only", choices=PLAN, help="a pass or an infill alone")
    p.add_argument("--cache", help="a folder that keeps the weights; by default they are removed afterwards")
    p.add_argument("--out", metavar="FILE", help="keep every round in a file of bench/results")
    p.add_argument("--one", help=argparse.SUPPRESS)
    p.add_argument("--kind", choices=PLAN, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.one:
        one(a.one, a.kind, a.cache, a)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.abspath(a.cache or temporary)
        os.makedirs(folder, exist_ok=True)
        for out, package in (("unmask", "./cmd/unmask"), ("encoders", "./tools/peers/encoders")):
            subprocess.run(["go", "build", "-o", os.path.join(folder, out), package], cwd=ROOT, check=True)
        fetch(folder, os.path.join(folder, "unmask"))
        write_rows(folder, a)
        if a.only != "infill":
            write_onnx(folder)
        rows = [row for kind in ([a.only] if a.only else PLAN) for row in compare(kind, folder, a)]
    if a.out:
        results.write(a.out, rows, threads=a.threads, sequences=a.sequences, variants=a.variants)


if __name__ == "__main__":
    main()
