"""Runs PyTorch, onnxruntime and unmask, all in float32 on one thread, on image models in turn.

    python3 -m venv venv && venv/bin/pip install onnxruntime onnx torch numpy safetensors regex
    venv/bin/python tools/peers/images.py [--rounds 3] [--only titok-l32,maskgen-vq-l]

Weights are random and of the published sizes, in the published formats (testkit/parity). A step is a
guided pass of one image: two sequences, their logits mixed; unmask draws from them, the others write them out.
In onnxruntime's graphs class, text and all that follows from them alone are constants, attention is its fused
operator, and all optimisations are on. A figure is processor time, which other programs on the machine change
less: the median of the calls of all rounds, each round a process of its own, one program after the other.
Needs Go, and 8 GB of memory and 8 GB of disk at most.
"""
import argparse, json, os, resource, statistics, subprocess, sys, tempfile

import needs
import results

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(ROOT, "testkit", "parity"))

CLASS, NO_CLASS = 1, 1000
# name: what is timed, tokens of an image, the mask, where the files are
MODELS = {
    "titok-l32": ("step", 32, 4096, ""),
    "halton-256-base": ("step", 256, 16384, "converted"),
    "maskgen-vq-l": ("step", 128, 8192, ""),
    "amused-256": ("step", 256, 8255, ""),
    "titok-l32-tokenizer": ("decode", 32, None, ""),
    "llamagen": ("decode", 256, None, "converted"),
}


def make(name, folder):
    """Writes a model's files, without the answers of a pack."""
    import torch
    import make_packs_image as M
    M.to64 = lambda w: w
    M.write_cases = lambda *a: None
    M.answers = lambda *a, **k: {}
    nothing = lambda *a, **k: torch.zeros(1, 3, 256, 256)
    for f in ("titok_decode", "titok_encode", "llamagen_decode", "llamagen_encode", "amused_decode", "amused_encode"):
        setattr(M.R, f, nothing)
    M.R.clip_text = lambda w, ids, *a: (torch.zeros(len(ids), 77, 768), None, torch.zeros(len(ids), 768))
    if name == "titok-l32-tokenizer":
        g, large = torch.Generator().manual_seed(1), ("large", 1024, 24, 16)
        M.titok_tokenizer_pack(g, folder, name, (large, large), 32, 4096, 12, True, True, 256, 16,
                               (128, (1, 1, 2, 2, 4), 256, 1024), None, 1)
        return
    sys.argv = ["make", folder, "--scale", "full", "--only", name]
    M.main()


def network(name, folder, attend):
    """-> a function of the state dict and tokens, the state dict, and the tokens."""
    import torch
    import reference_image as R
    from safetensors.torch import load_file
    R.attend = attend
    d = os.path.join(folder, name)
    kind, length, mask, _ = MODELS[name]
    label = torch.tensor([CLASS, NO_CLASS])
    text, pooled = torch.stack([torch.full((77, 768), 0.1), torch.zeros(77, 768)]), torch.zeros(2, 768)
    if name.startswith("halton"):
        w = torch.load(os.path.join(d, "ImageNet_256_base.pth"))["model_state_dict"]
    elif name == "llamagen":
        w = torch.load(os.path.join(d, "vq_ds16_c2i.pt"))["model"]
    elif name == "amused-256":
        w = load_file(os.path.join(d, "transformer", "diffusion_pytorch_model.safetensors"))
    else:
        w = load_file(os.path.join(d, "model.safetensors"))
    if kind == "decode":
        tokens = torch.arange(length)[None] * 37 % 4096
        if name == "llamagen":
            return lambda w, t: R.llamagen_decode(w, t, 16), w, tokens
        return lambda w, t: R.titok_decode(w, t, 16, True), w, tokens
    run = {"titok-l32": lambda w, t: R.titok_bert(w, t, label, 16),
           "halton-256-base": lambda w, t: R.halton_maskgit(w, t, label, 12),
           "maskgen-vq-l": lambda w, t: R.maskgen(w, t, text, pooled, torch.full((2,), 6.5), 16),
           "amused-256": lambda w, t: R.amused(w, t, 16, text, pooled, torch.tensor([[256., 256, 0, 0, 6]] * 2), 16, 12)}[name]

    def step(w, t):
        c, u = run(w, t)
        return c + 2 * (c - u)

    return step, w, torch.full((2, length), mask)


def fused(q, k, v):
    import torch.nn.functional as F
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def export(name, folder, file):
    """Writes the ONNX graph, attention as one operator of onnxruntime's."""
    import torch
    from torch.onnx import register_custom_op_symbolic, symbolic_helper

    @torch.library.custom_op("unmask::attention", mutates_args=())
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int) -> torch.Tensor:
        return fused(*(x.unflatten(2, (heads, -1)).transpose(1, 2) for x in (q, k, v))).clone()

    @symbolic_helper.parse_args("v", "v", "v", "i")
    def symbol(g, q, k, v, heads):
        return g.op("com.microsoft::MultiHeadAttention", q, k, v, num_heads_i=heads).setType(q.type())

    register_custom_op_symbolic("unmask::attention", symbol, 20)
    run, w, tokens = network(name, folder, lambda q, k, v: torch.ops.unmask.attention(
        *(x.transpose(1, 2).flatten(2) for x in (q, k, v)), q.shape[1]))

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for i, t in enumerate(w.values()):
                self.register_buffer(f"t{i}", t)

        def forward(self, tokens):
            return run({k: getattr(self, f"t{i}") for i, k in enumerate(w)}, tokens)

    with torch.no_grad():
        torch.onnx.export(Module().eval(), (tokens,), file, dynamo=False, opset_version=20, input_names=["tokens"])


def call_of(peer, name, folder):
    if peer == "PyTorch":
        import torch
        torch.set_num_threads(1)
        run, w, tokens = network(name, folder, fused)
        return torch.inference_mode()(lambda: run(w, tokens))
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.intra_op_num_threads = o.inter_op_num_threads = 1
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(os.path.join(folder, "onnx", "graph.onnx"), o, providers=["CPUExecutionProvider"])
    import numpy as np
    kind, length, mask, _ = MODELS[name]
    tokens = np.full((2, length), mask) if kind == "step" else np.arange(length)[None] * 37 % 4096
    return lambda: session.run(None, {"tokens": tokens})


def processor():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_utime + r.ru_stime


def measure(peer, name, folder, calls):
    call = call_of(peer, name, folder)
    call()
    seconds = []
    for _ in range(calls):
        began = processor()
        call()
        seconds.append(processor() - began)
    print(json.dumps(seconds))


def last_line(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def compare(name, a, folder):
    """Prints the line of a model, and returns its rows."""
    me = [sys.executable, os.path.abspath(__file__), "--folder", folder, "--only", name]
    subprocess.run(me + ["--do", "make"], check=True, stdout=subprocess.DEVNULL)
    kind, _, _, converted = MODELS[name]
    d = os.path.join(folder, name)
    if converted:
        files = [f for f in os.listdir(d) if f.endswith((".pt", ".pth"))]
        subprocess.run([a.unmask, "convert", os.path.join(d, files[0]), os.path.join(d, converted)], check=True, stdout=subprocess.DEVNULL)
    os.makedirs(os.path.join(folder, "onnx"))
    subprocess.run(me + ["--do", "export"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    runs = {p: me + ["--do", p, "--calls", str(a.calls)] for p in ("PyTorch", "onnxruntime")}
    runs["unmask"] = [a.images, kind, os.path.join(d, converted), str(a.calls), "1"]
    seconds = {p: [] for p in runs}
    for _ in range(a.rounds):
        for p, command in runs.items():
            seconds[p] += last_line(command)
    m = {p: statistics.median(s) for p, s in seconds.items()}
    print(f"| {name}, {kind} | " + " | ".join(f"{m[p]:.3f}" for p in runs) +
          f" | {m['PyTorch'] / m['unmask']:.2f} x | {m['onnxruntime'] / m['unmask']:.2f} x |", flush=True)
    return [{"name": f"{name}/{p}", "what": kind, "program": p, "processor_seconds": s} for p, s in seconds.items()]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--calls", type=int, default=3, help="calls of a round, after one that is not counted")
    p.add_argument("--only", default=",".join(MODELS), help="some of: " + ", ".join(MODELS))
    p.add_argument("--out", metavar="FILE", help="keep every call in a file of bench/results")
    p.add_argument("--folder", help=argparse.SUPPRESS)
    p.add_argument("--do", help=argparse.SUPPRESS)
    a = p.parse_args()
    needs.need("onnx", "onnxruntime", "torch", "numpy", "safetensors", "regex")
    if a.do == "make":
        make(a.only, a.folder)
    elif a.do == "export":
        export(a.only, a.folder, os.path.join(a.folder, "onnx", "graph.onnx"))
    elif a.do:
        measure(a.do, a.only, a.folder, a.calls)
    else:
        with tempfile.TemporaryDirectory() as t:
            a.unmask, a.images = os.path.join(t, "unmask"), os.path.join(t, "images")
            for out, package in ((a.unmask, "./cmd/unmask"), (a.images, "./tools/peers/images")):
                subprocess.run(["go", "build", "-o", out, package], cwd=ROOT, check=True)
            print("processor seconds of a call\n\n| | PyTorch | onnxruntime | unmask | unmask is faster than PyTorch | than onnxruntime |")
            print("|---|---|---|---|---|---|")
            rows = []
            for name in a.only.split(","):
                with tempfile.TemporaryDirectory() as folder:
                    rows += compare(name, a, folder)
        if a.out:
            results.write(a.out, rows, threads=1)


if __name__ == "__main__":
    main()
