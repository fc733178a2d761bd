"""The weighted mean of two text models' weights (WiSE-FT, Wortsman et al. 2022): what a last run on few
things has learned, with less of what it forgot.

    python3 average.py A B SHARE OUTDIR      (1 - SHARE) * A + SHARE * B

Writes OUTDIR/text/model.safetensors; A and B are OUTDIRs of train_text.py.
"""
import os, sys
import torch
import train_text


def main():
    a, b, share, out = sys.argv[1:]
    a, b = (train_text.load(os.path.join(d, "text", "model.safetensors")) for d in (a, b))
    os.makedirs(os.path.join(out, "text"), exist_ok=True)
    train_text.save(os.path.join(out, "text", "model.safetensors"),
                    {"backbone." + k: a[k].lerp(b[k], float(share)).to(torch.bfloat16) for k in a})


if __name__ == "__main__":
    main()
