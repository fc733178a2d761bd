"""Writes constant.json: a run of the pack titok-bert-tiny with constant guidance of 3 in 8 steps,
without noise, computed in float64. TiTok's own files have linear and power-cosine guidance; its
program can do this one too (1d-tokenizer, modeling/maskgit.py).

    python3 constant.py ../../../testdata/packs/titok-bert-tiny
"""
import json, math, sys
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

CODES, CLASSES, LENGTH, HEADS, STEPS, SCALE = 60, 10, 24, 4, 8, 3.0

w = {k: v.double() for k, v in load_file(sys.argv[1] + "/model.safetensors").items()}
labels = load_file(sys.argv[1] + "/cases.safetensors")["labels"]


def linear(name, x):
    return F.linear(x, w[name + ".weight"], w[name + ".bias"])


def norm(name, x):
    return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-12)


def logits(codes, classes):
    """Hugging Face's BERT over the class and the codes; [batch, LENGTH, CODES]."""
    ids = torch.cat([CODES + 1 + classes[:, None], codes], 1)
    e = "model.embeddings."
    x = w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][: ids.shape[1]]
    x = norm(e + "LayerNorm", x + w[e + "token_type_embeddings.weight"][0])
    layer = 0
    while f"model.encoder.layer.{layer}.output.dense.weight" in w:
        p = f"model.encoder.layer.{layer}."
        q, k, v = (linear(f"{p}attention.self.{n}", x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for n in ("query", "key", "value"))
        a = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v
        x = norm(p + "attention.output.LayerNorm", x + linear(p + "attention.output.dense", a.transpose(1, 2).flatten(2)))
        x = norm(p + "output.LayerNorm", x + linear(p + "output.dense", F.gelu(linear(p + "intermediate.dense", x))))
        layer += 1
    return linear("model.lm_head", x[:, 1:])


codes = torch.full((len(labels), LENGTH), CODES)
for step in range(1, STEPS + 1):
    c, u = logits(codes, labels), logits(codes, torch.full_like(labels, CLASSES))
    best, token = (c + SCALE * (c - u)).max(-1)
    masked = max(1, math.floor(LENGTH * math.acos(step / STEPS) / (math.pi / 2))) if step < STEPS else 0
    for row in range(len(codes)):
        still = sorted((i for i in range(LENGTH) if codes[row, i] == CODES), key=lambda i: -best[row, i])
        for i in still[: len(still) - masked]:
            codes[row, i] = token[row, i]
with open("constant.json", "w") as f:
    json.dump(codes.tolist(), f)
