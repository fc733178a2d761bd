"""Masked tokens right: the table of trained.py again, by PyTorch on the same masks.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python research/trained/pytorch.py [--unmask PROGRAM] [--cache FOLDER]

For each model and share, `unmask score --share` says which tokens it masked; PyTorch gets the same masks. The
table has the share that is right by both, and the largest difference of a masked token's log-probability.
"""
import argparse
import os
import sys

import torch

import trained
sys.path.insert(0, os.path.join(trained.HERE, "..", "..", "testkit", "parity"))
import trained_encoders  # noqa: E402

FILES = {"antiberty": "heavy.fasta", "sapiens-h": "heavy.fasta", "sapiens-l": "light.fasta", "rxnmapper": "reactions.txt"}
SPECIAL = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "<pad>", "</s>", "<unk>", "<mask>"}


@torch.inference_mode()
def logp(net, words, text, masked):
    """The log-probabilities of a text's masked tokens, and whether each is the most probable, as unmask counts
    them: special tokens are never drawn."""
    first, last, mask = ("<s>", "</s>", "<mask>") if "<s>" in words else ("[CLS]", "[SEP]", "[MASK]")
    tokens = [mask if m else t for t, m in zip(text, masked)]
    ids = torch.tensor([[words.index(t) for t in [first, *tokens, last]]])
    logits = net(ids, attention_mask=torch.ones_like(ids)).logits[0, 1:-1]
    logits[:, [i for i, w in enumerate(words) if w in SPECIAL or w.startswith("[unused")]] = float("-inf")
    own = torch.tensor([words.index(t) for t in text])
    rows = torch.tensor(masked).nonzero()[:, 0]
    logits, own = logits[rows], own[rows]
    return logits.log_softmax(-1).gather(1, own[:, None])[:, 0], logits.argmax(-1) == own


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--unmask", default="unmask")
    p.add_argument("--cache", default="trained-cache")
    o = p.parse_args()
    trained.fetch(o.cache, o.unmask)
    print("| model | masked | right, unmask | right, PyTorch | largest difference of log p |")
    print("|---|---|---|---|---|")
    for name, net, words, _ in trained_encoders.models(o.cache):
        for share in trained.SHARES:
            scored = trained.lines(trained.run(
                o.unmask, "score", "--model", os.path.join(o.cache, "converted", name),
                os.path.join(trained.HERE, FILES[name]), "--share", str(share), "--seed", "1", "--json"))
            right = ours = count = 0
            worst = 0.0
            for s in scored:
                text = trained.tokens(name, s["text"])
                masked = [x is not None for x in s["logp"]]
                assert len(text) == len(masked), (s["text"], len(text), len(masked))
                if not any(masked):
                    continue
                theirs, hits = logp(net, words, text, masked)
                own = torch.tensor([x for x in s["logp"] if x is not None])
                worst = max(worst, (theirs - own).abs().max().item())
                right, ours, count = right + int(hits.sum()), ours + s["right"], count + s["scored"]
            print(f"| {name} | {share} | {ours / count:.4f} | {right / count:.4f} | {worst:.1e} |", flush=True)


if __name__ == "__main__":
    main()
