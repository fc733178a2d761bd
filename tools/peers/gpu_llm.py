"""Compares large language models on a GPU with transformers on the same GPU, and times both.

    python3 -m venv venv && venv/bin/pip install torch transformers safetensors
    venv/bin/python tools/peers/gpu_llm.py --unmask ./unmask [--models dream,rnd1] [--scale 1] [--rounds 3]

Models of published sizes with random weights are made by transformers (Qwen2 for Dream-7B, Qwen3-MoE for RND1 with 12 of its
layers) and saved in bfloat16. Logits of two texts of 256 tokens in float32, bfloat16 and int8 are compared with those that
transformers computes in float32 with a mask that hides nothing; errors are of the largest logit. Then a pass and a reply of
128 tokens in 32 steps behind a prompt of 128, the most confident first: with no filter, and with the top-p of Dream's
published recipe, 0.95, which transformers' loop here leaves out. --quick leaves out what transformers and float32 take.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

import needs

needs.need("torch", "transformers", "safetensors")
import torch
import transformers
from safetensors.torch import load_file, save_file

p = argparse.ArgumentParser()
p.add_argument("--unmask", default="./unmask")
p.add_argument("--models", default="dream,rnd1")
p.add_argument("--scale", type=int, default=1, help="divides the sizes, to try the script")
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--quick", action="store_true")
p.add_argument("--device", default="cuda")
p.add_argument("--work", help="folder for a model of 15 GB, best in memory; without, a temporary one")
a = p.parse_args()
work = tempfile.mkdtemp(dir=a.work)
s = a.scale
on = a.device
length, prompt, steps = 256 // min(s, 8), 128 // min(s, 8), 32 // min(s, 8)


def build(name):
    if name == "dream":
        mask = 151666 // s
        c = transformers.Qwen2Config(vocab_size=152064 // s, hidden_size=3584 // s, intermediate_size=18944 // s, num_hidden_layers=28 // min(s, 14),
                                     num_attention_heads=28 // min(s, 7), num_key_value_heads=4, rms_norm_eps=1e-6,
                                     rope_parameters={"rope_type": "default", "rope_theta": 1e6}, max_position_embeddings=4096)
        kind, extra = transformers.Qwen2ForCausalLM, {"architectures": ["DreamModel"], "model_type": "Dream", "rope_theta": 1e6, "rope_scaling": None}
    else:
        mask = 151669 // s
        c = transformers.Qwen3MoeConfig(vocab_size=151936 // s, hidden_size=2048 // s, intermediate_size=6144 // s, num_hidden_layers=12 // min(s, 6),
                                        num_attention_heads=32 // min(s, 8), num_key_value_heads=4, head_dim=128 // min(s, 8), moe_intermediate_size=768 // s,
                                        num_experts=128 // min(s, 8), num_experts_per_tok=8, norm_topk_prob=True, rms_norm_eps=1e-6,
                                        rope_parameters={"rope_type": "default", "rope_theta": 1e6}, max_position_embeddings=4096)
        kind, extra = transformers.Qwen3MoeForCausalLM, {"architectures": ["RND1"], "model_type": "rnd1", "rope_theta": 1e6, "rope_scaling": None, "is_causal": False}
    c._attn_implementation = "sdpa"
    torch.manual_seed(7)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(on):
        m = kind(c).eval()
    torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for n, w in m.named_parameters():
            if "norm" in n:
                w.normal_(1, 0.1)
            elif "bias" in n:
                w.normal_(0, 0.5)
            elif "mlp.gate.weight" in n:
                w.normal_(0, 0.5)
            else:
                w.normal_(0, 0.02)
    folder = os.path.join(work, name)
    m.save_pretrained(folder, max_shard_size="4GB")
    config = json.load(open(folder + "/config.json")) | extra | {"mask_token_id": mask, "eos_token_id": 5, "pad_token_id": 5, "bos_token_id": 5}
    json.dump(config, open(folder + "/config.json", "w"))
    return m, folder, mask


def logits(m, x):
    open_mask = torch.zeros(x.shape[0], 1, x.shape[1], x.shape[1], dtype=next(m.parameters()).dtype, device=on)
    with torch.inference_mode():
        return m(input_ids=x, attention_mask=open_mask, use_cache=False).logits


def sync():
    if on == "cuda":
        torch.cuda.synchronize()


def timed(call, rounds):
    took = []
    for _ in range(rounds + 1):
        sync()
        began = time.perf_counter()
        call()
        sync()
        took.append(time.perf_counter() - began)
    return statistics.median(took[1:])


def reply(m, x, mask):
    x = torch.cat([x[:, :prompt], torch.full((x.shape[0], length - prompt), mask, device=on)], 1)
    each = (length - prompt) // steps
    for _ in range(steps):
        z = logits(m, x)
        z = torch.cat([z[:, :1], z[:, :-1]], 1)  # row i predicts position i+1
        best, token = torch.softmax(z.float(), -1).max(-1)
        best[x != mask] = -1
        at = best.topk(each, -1).indices
        x.scatter_(1, at, token.gather(1, at))
    return x


def unmask(*args):
    began = time.perf_counter()
    r = subprocess.run([a.unmask, *args], capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"{' '.join(args)}: status {r.returncode}: {r.stderr[-2000:]}")
    return r.stdout, time.perf_counter() - began


for name in a.models.split(","):
    began = time.perf_counter()
    m, folder, mask = build(name)
    g = torch.Generator().manual_seed(3)
    x = torch.randint(10, mask - 10, (2, length), generator=g)
    x[torch.rand(x.shape, generator=g) < 0.5] = mask
    x[:, 0] = 11  # nothing predicts a first position
    save_file({"tokens": x}, folder + "/tokens.st")
    save_file({"tokens": x[:1, :prompt].contiguous()}, folder + "/prompt.st")
    x = x.to(on)
    rows = {"bf16": logits(m, x).float().cpu()}
    print(name, "made in %.0f s" % (time.perf_counter() - began), flush=True)
    if not a.quick:
        print(name, "transformers bf16 pass %.2f ms" % (1e3 * timed(lambda: logits(m, x[:1]), 5)),
              "reply %.3f s" % timed(lambda: reply(m, x[:1], mask), a.rounds), flush=True)
    m = m.float()
    truth = logits(m, x).float().cpu()
    if not a.quick:
        print(name, "transformers f32 pass %.2f ms" % (1e3 * timed(lambda: logits(m, x[:1]), 5)), flush=True)
    del m
    if on == "cuda":
        torch.cuda.empty_cache()
    top = truth.abs().max()

    def off(got):
        return "off by %.2g at most, %.2g rms; most probable tokens equal %.4f" % (
            (got - truth).abs().max() / top, (got - truth).pow(2).mean().sqrt() / truth.pow(2).mean().sqrt(),
            (got.argmax(-1) == truth.argmax(-1)).float().mean())

    print(name, "transformers bf16", off(rows["bf16"]), flush=True)
    for precision in ("bf16",) if a.quick else ("f32", "bf16", "int8"):
        out, took = unmask("logits", "--model", folder, "--tokens", folder + "/tokens.st", "--device", on, "--precision", precision, "--out", folder + "/out.st")
        if os.path.exists(folder + "/out.st"):
            print(name, "unmask", precision, off(load_file(folder + "/out.st")["logits"]), "(%.1f s)" % took, flush=True)
            os.remove(folder + "/out.st")
    run = ["text", "--model", folder, "--tokens-in", folder + "/prompt.st", "--steps", str(steps), "--device", on, "--json", "--batch", "1",
           "--sampler", "confidence", "--temperature", "0"]
    for precision, p in (("bf16", "1"), ("bf16", "0.95"), ("int8", "1"), ("f32", "1"))[:3 if a.quick else 4]:
        out, took = unmask(*run, "--n", str(a.rounds), "--precision", precision, "--top-p", p)
        print(name, "unmask", precision, "top-p", p, "reply %.3f s" % statistics.median(json.loads(l)["seconds"] for l in out.splitlines()),
              "whole command %.1f s" % took, flush=True)
    if on == "cuda":
        os.environ["UNMASK_CUDA_TRACE"] = folder + "/trace.csv"
        unmask(*run, "--precision", "bf16", "--top-p", "1")
        del os.environ["UNMASK_CUDA_TRACE"]
        print(*open(folder + "/trace.csv").read().splitlines()[:16], sep="\n", flush=True)
    shutil.rmtree(folder)
shutil.rmtree(work)
