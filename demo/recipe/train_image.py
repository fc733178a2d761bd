"""Trains the image demo: a small VQGAN and a small MAGE over its codes, on drawn landscapes.

    python3 train_image.py OUTDIR [--vq-minutes 30] [--mage-minutes 45] [--threads 1]

OUTDIR gets image/{config.json,model.safetensors}, one file for both networks with MAGE's
tensor names (the VQGAN under `vqgan.`), bfloat16 on disk. Needs torch and numpy only.
"""
import argparse, json, math, os, sys, time
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scenes import HOURS, SIDE, labelled, scenes
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testkit", "parity"))
import reference as R  # noqa: E402
from make_packs import save, vqgan_weights, mage_weights  # noqa: E402

BATCH, BF16 = 16, False
CH, MULT, Z, CODES, GRID = 32, (1, 1, 2), 32, 192, 16
DIM, ENC, DEC, HEADS = 128, 4, 2, 2


def params(w):
    return {k: nn.Parameter(v.clone()) for k, v in w.items() if v.is_floating_point()}


class Average:
    """The running mean of weights over the steps of an optimiser."""
    def __init__(self, w):
        self.w, self.n = {k: v.detach().clone() for k, v in w.items()}, 0

    def step(self, opt, w, loss):
        """One step of the optimiser down the loss, and the mean follows."""
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(list(w.values()), 1.0)
        opt.step()
        self.n += 1
        d = min(0.999, self.n / (self.n + 9))
        for k, v in w.items():
            self.w[k].lerp_(v.detach(), 1 - d)


def encode_z(w, x):
    """The encoder's output before the nearest code: (B*GRID*GRID, Z)."""
    e = "vqgan.encoder."
    x = F.conv2d(x, w[e + "conv_in.weight"], padding=1)
    for lvl in range(len(MULT)):
        for b in range(2):
            x = R.res_block(w, f"{e}down.{lvl}.block.{b}.", x)
        if lvl != len(MULT) - 1:
            x = F.avg_pool2d(x, 2, 2)
    x = R.res_block(w, e + "mid.block_2.", R.res_block(w, e + "mid.block_1.", x))
    x = F.conv2d(R.group_norm_swish(w, e + "norm_out.", x), w[e + "conv_out.weight"], w[e + "conv_out.bias"])
    return x.permute(0, 2, 3, 1).reshape(-1, Z)


def decode_z(w, z, n):
    d = "vqgan.decoder."
    x = z.reshape(n, GRID, GRID, Z).permute(0, 3, 1, 2)
    x = F.conv2d(x, w[d + "conv_in.weight"], w[d + "conv_in.bias"], padding=1)
    x = R.res_block(w, d + "mid.block_2.", R.res_block(w, d + "mid.block_1.", x))
    for lvl in reversed(range(len(MULT))):
        for b in range(2):
            x = R.res_block(w, f"{d}up.{lvl}.block.{b}.", x)
        if lvl:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = F.conv2d(x, w[f"{d}up.{lvl}.upsample.conv.weight"], w[f"{d}up.{lvl}.upsample.conv.bias"], padding=1)
    x = R.group_norm_swish(w, d + "norm_out.", x)
    return F.conv2d(x, w[d + "conv_out.weight"], w[d + "conv_out.bias"], padding=1)


def edges(a, b):
    return ((a[..., 1:] - a[..., :-1]) - (b[..., 1:] - b[..., :-1])).abs().mean() + \
           ((a[..., 1:, :] - a[..., :-1, :]) - (b[..., 1:, :] - b[..., :-1, :])).abs().mean()


def schedule(opt, lr, done, step):
    for g in opt.param_groups:
        g["lr"] = lr * min(1, (step + 1) / 100) * (0.5 * (1 + math.cos(math.pi * done)) * 0.97 + 0.03)


def fit_vqgan(images, minutes):
    g = torch.Generator().manual_seed(3)
    w = params(vqgan_weights(g, CH, MULT, Z, CODES))
    book = w.pop("vqgan.quantize.embedding.weight").data
    avg = Average(w)
    count, total = torch.ones(CODES), book.clone()
    opt = torch.optim.Adam(w.values(), 1e-3, (0.9, 0.99))
    start, step = time.process_time(), 0
    while (done := (time.process_time() - start) / (60 * minutes)) < 1:
        schedule(opt, 1.5e-3, done, step)
        x = images[torch.randint(0, len(images), (16,))]
        z = encode_z(w, x)
        if step == 0:
            book = z.detach()[torch.randperm(len(z))[:CODES]].clone()
            count, total = torch.ones(CODES), book.clone()
        with torch.no_grad():
            code = torch.cdist(z, book).argmin(1)
            hot = F.one_hot(code, CODES).float()
            count = count * 0.98 + hot.sum(0) * 0.02
            total = total * 0.98 + hot.t() @ z * 0.02
            book = total / count.clamp(min=1e-3)[:, None]
            dead = torch.nonzero(count < 0.15).flatten()
            if done < 0.8 and len(dead):
                book[dead] = z[torch.randint(0, len(z), (len(dead),))]
                total[dead], count[dead] = book[dead], 1.0
        q = book[code]
        out = decode_z(w, z + (q - z).detach(), len(x))
        fit = (out - x).abs().mean() + 0.5 * edges(out, x)
        loss = fit + 0.25 * F.mse_loss(z, q)
        avg.step(opt, w, loss)
        step += 1
        if step % 50 == 0:
            print(f"vqgan step {step} {done:.0%} fit {fit.item():.4f} codes used {int((count > 0.3).sum())}", flush=True)
    out = dict(avg.w)
    out["vqgan.quantize.embedding.weight"] = book
    return out


def fit_decoder(vq, images, codes, hours, minutes):
    """Goes on training the decoder alone, on the codes [n, GRID*GRID] of images of these hours [n]. In half of
    them up to a fifth of the codes are another image's of the same hour, at the same place: what MAGE
    draws does not fit together as well as an image's own codes do, and the decoder's norms see the whole
    picture, so that a few such codes could turn a dusk into a day."""
    w = params({k: v for k, v in vq.items() if k.startswith("vqgan.decoder.")})
    avg, book = Average(w), vq["vqgan.quantize.embedding.weight"]
    opt = torch.optim.Adam(w.values(), 1e-3, (0.9, 0.99))
    start, step, shown = time.process_time(), 0, []
    same = [torch.nonzero(hours == h).flatten() for h in range(len(HOURS))]
    while (done := (time.process_time() - start) / (60 * minutes)) < 1:
        schedule(opt, 5e-4, done, step)
        hour = step % len(HOURS)
        at, other = same[hour][torch.randint(0, len(same[hour]), (2, 16))]
        share = 0.2 * torch.rand(16, 1) * (torch.arange(16) % 2)[:, None]
        z = book[torch.where(torch.rand(16, GRID * GRID) < share, codes[other], codes[at])]
        out, x = decode_z(w, z.reshape(-1, Z), 16), images[at]
        loss = (out - x).abs().mean() + 0.5 * edges(out, x)
        avg.step(opt, w, loss)
        shown.append(loss.item())
        step += 1
        if step % 50 == 0:
            print(f"decoder step {step} {done:.0%} loss {sum(shown[-50:])/50:.4f}", flush=True)
    return {**vq, **avg.w}


def sincos(side, dim):
    """Fixed 2-D sine-cosine positions, a zero row for the class token first: (side*side+1, dim)."""
    f = 1.0 / 10000 ** (torch.arange(dim // 4).float() / (dim // 4))
    y, x = torch.meshgrid(torch.arange(side).float(), torch.arange(side).float(), indexing="ij")
    rows = [g(p.reshape(-1, 1) * f) for p in (y, x) for g in (torch.sin, torch.cos)]
    return torch.cat([torch.zeros(1, dim), torch.cat(rows, 1)], 0)


NONE = CODES + 76  # the token of "no class", where class c is CODES + c


def load(path):
    """A bfloat16 safetensors file as float32 tensors."""
    raw = open(path, "rb").read()
    n = int.from_bytes(raw[:8], "little")
    out = {}
    for k, v in json.loads(raw[8:8 + n]).items():
        if k != "__metadata__" and v["dtype"] == "BF16":
            lo, hi = v["data_offsets"]
            t = torch.frombuffer(bytearray(raw[8 + n + lo:8 + n + hi]), dtype=torch.bfloat16)
            out[k] = t.reshape(v["shape"]).float()
    return out


def openings(codes, hours, known):
    """For each hour and for no class a masked image [5, GRID*GRID] with `known` codes, 0 or 1, its label, and how
    often each code stands at each position of the images that agree with it, [5, GRID*GRID, CODES]: what the
    network should answer, without the noise of a single image. Hours that fewer than 50 images agree with
    are left out."""
    out = []
    for label in (*range(CODES, CODES + len(HOURS)), NONE):
        x, agree = torch.full((codes.shape[1],), CODES + 1000), codes if label == NONE else codes[hours == label - CODES]
        if known:
            at = torch.randint(0, len(x), ())
            x[at] = agree[torch.randint(0, len(agree), ()), at]
            agree = agree[agree[:, at] == x[at]]
        if label == NONE or len(agree) >= 50:
            count = torch.zeros(len(x), CODES).scatter_add_(1, agree.T, torch.ones(agree.T.shape))
            out.append((x, torch.tensor(label), count / len(agree)))
    return [torch.stack(t) for t in zip(*out)]


def fit_mage(codes, hours, minutes, before=None, knows=False, peak=None, saved=None):
    """Trains MAGE on codes [n, GRID*GRID] of images of these hours [n]: as many of each hour, and each
    hour hidden one time in eight, so that the same weights answer with and without a class. Of four
    images in ten nearly everything is masked, since that is where a class is decided; and for no code or
    one there is an exact answer, which counts half as much. It goes on from weights of before, which may know classes, and gives its mean weights to `saved` every few minutes."""
    g = torch.Generator().manual_seed(5)
    w = params(mage_weights(g, DIM, ENC, DEC, GRID, CODES))
    where = sincos(GRID, DIM)
    for k, v in w.items():
        if before and k in before:
            v.data.copy_(before[k])
    if before and not knows:  # classes begin as no class
        e = w["token_emb.word_embeddings.weight"].data
        e[CODES:CODES + len(HOURS)] = e[NONE]
    for k, v in ({} if before else w).items():  # a transformer's usual start, not the parity packs' wide one
        if k == "token_emb.position_embeddings.weight":
            v.data.copy_(where * 0.3)
        elif k == "decoder_pos_embed_learned":
            v.data.copy_(where[None] * 0.5)
        elif k == "token_emb.word_embeddings.weight":
            v.data.normal_(0, 0.12, generator=g)
        elif v.dim() == 2:
            v.data.normal_(0, v.shape[1] ** -0.5 * 0.7, generator=g)
        elif "norm" in k or "ln" in k or "LayerNorm" in k:
            v.data.fill_(1.0 if k.endswith("weight") else 0.0)
        elif k.endswith("bias"):
            v.data.zero_()
        else:
            v.data.normal_(0, 0.02, generator=g)
    mask = CODES + 1000
    avg = Average(w)
    opt = torch.optim.AdamW(w.values(), 1e-3, (0.9, 0.98), weight_decay=0.03)
    peak = peak or (1e-3 if before else 2e-3)
    even = 1 / torch.bincount(hours)[hours].float()
    nothing = openings(codes, hours, 0)
    start, step, shown, wrote = time.process_time(), 0, [], time.time()
    while (done := (time.process_time() - start) / (60 * minutes)) < 1:
        schedule(opt, peak, done, step)
        if saved and time.time() - wrote > 240:  # a run can be broken off
            wrote = time.time()
            saved(avg.w)
        nameless = torch.rand(BATCH) < 0.125
        at = torch.where(nameless, torch.randint(0, len(codes), (BATCH,)), even.multinomial(BATCH))
        x = codes[at]
        label = torch.where(nameless, NONE, CODES + hours[at])
        share = torch.cos(math.pi / 2 * ((torch.rand(1) + torch.arange(len(x)) / len(x)) % 1))
        share = torch.where(torch.rand(BATCH) < 0.4, 0.85 + 0.15 * torch.rand(BATCH), share)
        hide = torch.rand(x.shape) < share[:, None].clamp(min=0.02)
        with torch.autocast("cpu", torch.bfloat16, enabled=BF16):
            logits = R.mage(w, torch.where(hide, mask, x), HEADS, HEADS, CODES, label=label).float()
            begun, named, often = nothing if step % 2 else openings(codes, hours, 1)
            first = R.mage(w, begun, HEADS, HEADS, CODES, label=named).float()
        loss = F.cross_entropy(logits[hide], x[hide]) + 0.5 * F.cross_entropy(first.flatten(0, 1), often.flatten(0, 1))
        avg.step(opt, w, loss)
        shown.append(loss.item())
        step += 1
        if step % 50 == 0:
            print(f"mage step {step} {done:.0%} loss {sum(shown[-50:])/50:.4f}", flush=True)
    return avg.w


@torch.no_grad()
def sample(w, n, steps=16, alpha=4.5, guidance=1.0):
    """n images, the hours in turn; logits are u + guidance*(c - u)."""
    label = CODES + torch.arange(n) % len(HOURS)
    mask = CODES + 1000
    x = torch.full((n, GRID * GRID), mask)
    D = GRID * GRID
    for s in range(1, steps + 1):
        c = R.mage(w, x, HEADS, HEADS, CODES, label=label)
        if guidance != 1:
            u = R.mage(w, x, HEADS, HEADS, CODES)
            c = u + guidance * (c - u)
        p = c.softmax(-1)
        draw = torch.multinomial(p.flatten(0, 1), 1).view_as(x)
        score = p.gather(-1, draw[..., None])[..., 0].log()
        score = score - alpha * (1 - s / steps) * torch.log(-torch.log(torch.rand_like(score).clamp(min=1e-9)))
        hidden = x == mask
        score[~hidden] = float("inf")
        left = max(0, int(D * math.cos(math.pi / 2 * s / steps)))
        keep = torch.where(hidden, draw, x)
        if s < steps and left:
            low = score.topk(left, largest=False).indices
            keep.scatter_(1, low, mask)
        x = keep
    return R.vqgan_decode(w, x, GRID).clamp(0, 1)


def sheet(path, images):
    im = (images.clamp(0, 1) * 255).byte().permute(0, 2, 3, 1).numpy()
    cols, rows = 8, -(-len(im) // 8)
    out = np.zeros((rows * SIDE, cols * SIDE, 3), np.uint8)
    for i, t in enumerate(im):
        y, x = divmod(i, cols)
        out[y * SIDE:(y + 1) * SIDE, x * SIDE:(x + 1) * SIDE] = t
    with open(path, "wb") as f:
        f.write(b"P6 %d %d 255\n" % (out.shape[1], out.shape[0]) + out.tobytes())


def main():
    a = argparse.ArgumentParser()
    a.add_argument("out")
    a.add_argument("--vq-minutes", type=float, default=30)
    a.add_argument("--mage-minutes", type=float, default=45)
    a.add_argument("--decoder-minutes", type=float, default=0, help="for the VQGAN's decoder, after its codes are made")
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--images", type=int, default=12000)
    a.add_argument("--resume", help="an image folder of before: its VQGAN stays, its MAGE goes on")
    a.add_argument("--lr", type=float, help="of MAGE; 2e-3, or 1e-3 with --resume")
    a.add_argument("--bf16", action="store_true", help="where the processor multiplies bfloat16")
    a.add_argument("--vq", help="a vq.pt that an earlier run left: its VQGAN and, with as many images, its codes")
    a = a.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(11)
    d = os.path.join(a.out, "image")
    os.makedirs(d, exist_ok=True)
    global BF16
    BF16 = a.bf16
    kept = torch.load(a.vq) if a.vq else {}
    known = len(kept.get("hours", ())) == a.images and not a.decoder_minutes
    images, hours = (None, kept["hours"]) if known else (torch.from_numpy(x) for x in labelled(a.images, 2026))
    before, knows = None, False
    if a.resume:
        before = load(os.path.join(a.resume, "model.safetensors"))
        with open(os.path.join(a.resume, "config.json")) as f:
            knows = "class_names" in json.load(f)
    held = torch.from_numpy(scenes(64, 1))
    if before:
        vq = {k: v for k, v in before.items() if k.startswith("vqgan.")}
    else:
        vq = kept["vq"] if kept else fit_vqgan(images, a.vq_minutes)
    with torch.no_grad():
        codes = kept["codes"] if known else torch.cat(
            [R.vqgan_encode(vq, images[i:i + 64]) for i in range(0, len(images), 64)])
    if a.decoder_minutes:
        vq = fit_decoder(vq, images, codes, hours, a.decoder_minutes)
    with torch.no_grad():
        back = R.vqgan_decode(vq, R.vqgan_encode(vq, held), GRID)
        mae = (back - held).abs().mean().item()
    print(f"vqgan: mean absolute error held out {mae:.4f}, codes in use {len(codes.unique())}", flush=True)
    sheet(os.path.join(a.out, "vqgan.ppm"), torch.cat([held[:24], back[:24]]))
    torch.save({"vq": vq, "codes": codes, "hours": hours}, os.path.join(a.out, "vq.pt"))
    config = {"model_type": "mage", "embed_dim": DIM, "depth": ENC, "num_heads": HEADS, "decoder_embed_dim": DIM,
              "decoder_depth": DEC, "decoder_num_heads": HEADS, "grid": GRID, "codebook_size": CODES,
              "class_names": list(HOURS),
              "vqgan": {"ch": CH, "ch_mult": list(MULT), "num_res_blocks": 2, "z_channels": Z, "embed_dim": Z,
                        "n_embed": CODES, "out_ch": 3},
              "training": {"vqgan_held_out_mae": round(mae, 4)}}

    def write(w):
        json.dump(config, open(os.path.join(d, "config.json"), "w"), indent=1)
        w = {**w, **vq, "token_emb.position_ids": torch.arange(GRID * GRID + 1)[None]}
        unused = ("cls_token", "pos_embed", "mask_token", "decoder_pos_embed")
        save(os.path.join(d, "model.safetensors"),
             {k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in w.items() if k not in unused})

    if before and not a.mage_minutes:
        w = {k: v for k, v in before.items() if not k.startswith("vqgan.")}
    else:
        w = fit_mage(codes, hours, a.mage_minutes, before, knows, a.lr, write)
    write(w)
    w.update(vq)
    torch.manual_seed(2)
    for scale in (1.0, 2.0):
        sheet(os.path.join(a.out, f"samples-{scale:g}.ppm"), sample(w, 48, guidance=scale))
    print("parameters", sum(v.numel() for v in w.values()) / 1e6, "M", flush=True)


if __name__ == "__main__":
    main()
