"""Trains the text demo: a small masked diffusion model in SDTT's own format, and its judge.

    python3 stories.py 40000 1 > stories.txt
    python3 train_text.py stories.txt OUTDIR [--minutes 60] [--judge-minutes 15] [--threads 2] [--device cuda]

OUTDIR gets text/{config.json,model.safetensors,tokenizer.json} (a DiT with SDTT's tensor
names, time conditioning off) and judge/{...} (a GPT-2 over the same tokens, for
generative perplexity without any download). bfloat16 on disk. Needs torch only.
"""
import argparse, json, math, os, random, re, sys, time
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.distributed as dist
import bpe
import dialogues
import fewsteps
import stories
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testkit", "parity"))
from make_packs import save  # noqa: E402

WIDTH, HEADS, BLOCKS, COND, LENGTH, VOCAB = 192, 3, 8, 32, 256, 1024
DEVICE, BF16, COMPILE = "cpu", False, False


class Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.layer_norm(x.float(), x.shape[-1:]) * self.weight


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = Norm(WIDTH), Norm(WIDTH)
        self.attn_qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.attn_out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH))
        self.adaLN_modulation = nn.Linear(COND, 6 * WIDTH)
        nn.init.zeros_(self.adaLN_modulation.weight)
        nn.init.zeros_(self.adaLN_modulation.bias)
        with torch.no_grad():  # gates open, so that plain residual learning starts at once
            self.adaLN_modulation.bias[2 * WIDTH:3 * WIDTH] = 1
            self.adaLN_modulation.bias[5 * WIDTH:] = 1

    def forward(self, x, c, cos, sin):
        B, S, _ = x.shape
        sh1, sc1, g1, sh2, sc2, g2 = self.adaLN_modulation(c).chunk(6, -1)
        qkv = self.attn_qkv(self.norm1(x) * (1 + sc1) + sh1).view(B, S, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        a = attend(q, k, v)
        x = x + g1 * self.attn_out(a.transpose(1, 2).reshape(B, S, -1))
        return x + g2 * self.mlp(self.norm2(x) * (1 + sc2) + sh2)


def attend(q, k, v):
    """Attention of all to all, [B, HEADS, S, D], as two products: on CPUs, in bfloat16, a step takes 0.7 of
    its time with scaled_dot_product_attention."""
    p = (q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2)).float().softmax(-1)
    return p.to(v.dtype) @ v


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_final = Norm(WIDTH)
        self.linear = nn.Linear(WIDTH, VOCAB + 1)
        self.adaLN_modulation = nn.Linear(COND, 2 * WIDTH)
        nn.init.zeros_(self.adaLN_modulation.weight)
        nn.init.zeros_(self.adaLN_modulation.bias)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x, c):
        sh, sc = self.adaLN_modulation(c).chunk(2, -1)  # [1, WIDTH]: x may have any rows
        return self.linear(self.norm_final(x) * (1 + sc) + sh)


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(VOCAB + 1, WIDTH) * 0.5)


class Timestep(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(256, COND), nn.SiLU(), nn.Linear(COND, COND))


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.vocab_embed, self.sigma_map, self.output_layer = Embedding(), Timestep(), Head()
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        f = 1.0 / (10000.0 ** (torch.arange(0, WIDTH // HEADS, 2).float() / (WIDTH // HEADS)))
        angle = torch.outer(torch.arange(LENGTH).float(), f)
        self.cos, self.sin = angle.cos().to(DEVICE), angle.sin().to(DEVICE)

    def forward(self, tokens, targets=None, weights=None, answers=()):
        """Logits; with targets and weights the weighted sum of the cross-entropies, to answers
        [rows, S, VOCAB] for the first rows, which have probabilities for targets."""
        zero = torch.cat([torch.ones(1, 128), torch.zeros(1, 128)], -1).to(DEVICE)  # sigma 0: cosines, then sines
        c = F.silu(self.sigma_map.mlp(zero))
        x = self.vocab_embed.embedding[tokens]
        for b in self.blocks:
            x = b(x, c, self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]])
        if targets is None:
            return self.output_layer(x, c)
        n, loss = len(answers), 0
        if n:
            likely = self.output_layer(x[:n], c)[..., :VOCAB].float().log_softmax(-1)
            loss = -((answers * likely).sum(-1) * weights[:n]).sum()
        rows = weights[n:].flatten().nonzero()[:, 0]
        logits = self.output_layer(x[n:].flatten(0, 1)[rows], c)[:, :VOCAB].float()  # never the mask
        return loss + (F.cross_entropy(logits, targets[n:].flatten()[rows], reduction="none") * weights[n:].flatten()[rows]).sum()


class Judge(nn.Module):
    """GPT-2, Conv1D weights (in, out)."""
    def __init__(self):
        super().__init__()
        std, p = 0.02, {}
        p["wte.weight"], p["wpe.weight"] = torch.randn(VOCAB, WIDTH) * 0.05, torch.randn(LENGTH, WIDTH) * std
        for i in range(BLOCKS):
            for n, a, b in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                            ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
                p[f"h.{i}.{n}.weight"], p[f"h.{i}.{n}.bias"] = torch.randn(a, b) * std, torch.zeros(b)
            for n in ("ln_1", "ln_2"):
                p[f"h.{i}.{n}.weight"], p[f"h.{i}.{n}.bias"] = torch.ones(WIDTH), torch.zeros(WIDTH)
        p["ln_f.weight"], p["ln_f.bias"] = torch.ones(WIDTH), torch.zeros(WIDTH)
        self.names = list(p)
        self.p = nn.ParameterList(nn.Parameter(t) for t in p.values())

    def weights(self):
        return dict(zip(self.names, self.p))

    def forward(self, tokens):
        w = self.weights()
        B, S = tokens.shape
        x = w["wte.weight"][tokens] + w["wpe.weight"][:S]
        causal = torch.full((S, S), float("-inf"), device=DEVICE).triu(1)
        for i in range(BLOCKS):
            p = f"h.{i}."
            h = F.layer_norm(x, x.shape[-1:], w[p + "ln_1.weight"], w[p + "ln_1.bias"])
            qkv = F.linear(h, w[p + "attn.c_attn.weight"].t(), w[p + "attn.c_attn.bias"])
            q, k, v = qkv.view(B, S, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            a = torch.softmax((q @ k.transpose(-1, -2)).float() / math.sqrt(q.shape[-1]) + causal, -1).to(v.dtype)
            o = (a @ v).transpose(1, 2).reshape(B, S, -1)
            x = x + F.linear(o, w[p + "attn.c_proj.weight"].t(), w[p + "attn.c_proj.bias"])
            h = F.layer_norm(x, x.shape[-1:], w[p + "ln_2.weight"], w[p + "ln_2.bias"])
            h = F.gelu(F.linear(h, w[p + "mlp.c_fc.weight"].t(), w[p + "mlp.c_fc.bias"]), approximate="tanh")
            x = x + F.linear(h, w[p + "mlp.c_proj.weight"].t(), w[p + "mlp.c_proj.bias"])
        x = F.layer_norm(x, x.shape[-1:], w["ln_f.weight"], w["ln_f.bias"])
        return F.linear(x, w["wte.weight"])


def batch(data, n):
    """n windows of a stream and its stories' beginnings, of which three in four begin there; or n of rows."""
    if isinstance(data, torch.Tensor):
        return data[torch.randint(0, len(data), (n,))].long().to(DEVICE)
    ids, starts = data
    at = torch.randint(0, len(ids) - LENGTH, (n,))
    begin = starts[torch.randint(0, len(starts), (n,))]
    at = torch.where(torch.rand(n) < 0.75, begin, at)
    return torch.stack([ids[i: i + LENGTH] for i in at]).long().to(DEVICE)


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal by five Newton-Schulz steps (Jordan 2024), in float32."""
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                s = self.state[p]
                m = s.setdefault("m", torch.zeros_like(p))
                m.lerp_(p.grad, 0.05)
                x = p.grad.lerp(m, 0.95)
                tall = x.shape[0] > x.shape[1]
                x = x.T if tall else x
                x = (x / (x.norm() + 1e-7)).to(torch.bfloat16 if BF16 else x.dtype)
                for _ in range(5):
                    y = x @ x.T
                    x = 3.4445 * x + (-4.775 * y + 2.0315 * y @ y) @ x
                x = x.T if tall else x
                p.mul_(1 - 0.02 * g["lr"]).add_(x.float(), alpha=-0.2 * g["lr"] * max(p.shape) ** 0.5)


def optimisers(model, lr):
    """Muon for the matrices of the blocks, AdamW for everything else."""
    matrices, rest = [], []
    for name, p in model.named_parameters():
        (matrices if p.ndim == 2 and min(p.shape) >= WIDTH and max(p.shape) <= 4 * WIDTH else rest).append(p)
    return [Muon(matrices, 2 * lr), torch.optim.AdamW(rest, lr, (0.9, 0.98), weight_decay=0.0)]


def shared(model, clock):
    """The mean of the processes' gradients, and the first one's clock; torchrun starts them."""
    now = torch.tensor(clock, dtype=torch.double)
    if dist.is_initialized():
        dist.broadcast(now, 0)
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        flat = torch.cat([g.flatten() for g in grads])
        dist.all_reduce(flat)
        for g, mean in zip(grads, (flat / dist.get_world_size()).split([g.numel() for g in grads])):
            g.copy_(mean.view_as(g))
    return now.item()


def fit(model, loss_of, minutes, lr, log, saved=None):
    opts = optimisers(model, lr)
    run = torch.compile(model) if COMPILE else model
    ema = {k: v.detach().clone() for k, v in model.named_parameters()}
    start, step, shown, wrote = time.process_time(), 0, [], time.time()
    now = start
    while (done := (now - start) / (60 * minutes)) < 1:
        scale = min(1, (step + 1) / 30) * min(1, (1 - done) / 0.4 + 0.02)  # flat, then linear to 0
        for opt, base in zip(opts, (2 * lr, lr)):
            for g in opt.param_groups:
                g["lr"] = base * scale
        with torch.autocast(DEVICE, torch.bfloat16, enabled=BF16):
            loss = loss_of(run)
        for opt in opts:
            opt.zero_grad(set_to_none=True)
        loss.backward()
        now = shared(model, time.process_time())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
        decay = min(0.995, (step + 1) / (step + 10))
        for k, v in model.named_parameters():
            ema[k].lerp_(v.detach(), 1 - decay)
        shown.append(loss.item())
        step += 1
        if step == 1:
            start = now  # torch.compile works in the first step
        if step % 10 == 0:
            print(f"{log} step {step} {done:.0%} loss {sum(shown[-10:])/10:.4f}", flush=True)
        if saved and time.time() - wrote > 240:  # a run can be broken off
            wrote = time.time()
            saved(ema, step)
    for k, v in model.named_parameters():
        v.data.copy_(ema[k])
    return step


def hide(x, weights, least):
    """Masks each token with a probability t of its sequence, spread evenly over (least, 1); the masked
    tokens' weights are divided by t."""
    n = len(x)
    t = ((torch.rand(1) + torch.randperm(n) / n) % 1).to(DEVICE)[:, None] * (1 - least) + least
    masked = (torch.rand(x.shape, device=DEVICE) < t) & (weights > 0)
    return torch.where(masked, VOCAB, x), x, weights * masked / t


def story_batch(data, n, weight=None, length=LENGTH):
    """n windows of stories, masked; the weights of a window's tokens add up to about 1/n."""
    x = batch(data, n)[:, :length]
    w = torch.ones_like(x, dtype=torch.float) if weight is None else weight[x]
    if isinstance(data, torch.Tensor):
        w[:, 0] = 0  # the first token of a row is always known
    return hide(x, w / x.numel(), 1e-3)


def encoder(vocab, merges):
    """A function from a message to its tokens."""
    ids = {t: i for i, t in enumerate(vocab)}
    parts = {mark: [ids[mark]] for mark in dialogues.BETWEEN}

    def encode(text):
        out = []
        for piece in re.split("(%s)" % "|".join(dialogues.BETWEEN), text):
            for w in [piece] if piece in dialogues.BETWEEN else bpe.SPLIT.findall(piece):
                if w not in parts:
                    parts[w] = [ids[t] for t in bpe.cut("".join(bpe.CHARS[b] for b in w.encode()), merges)]
                out += parts[w]
        return out
    return encode


def weights_of(part, text, f, vocab, facts, trait=""):
    """The weights in the loss of a message's tokens: `facts` for those of its facts, ten times that for the trait, 1
    for the others."""
    heavy, at = [1.0] * len(part), 0
    for j, token in enumerate(part):
        if any(lo < at + len(vocab[token]) and at < hi for lo, hi in dialogues.values(text, f)):
            heavy[j] = facts * (10 if trait and vocab[token].endswith(trait) else 1)
        at += len(vocab[token])
    return heavy


def draw_dialogues(count, seed, vocab, merges, facts, traits=0.0):
    """Dialogues in tokens, filled with ends to a length in steps of 32 or more, and the weights of tokens in
    the loss: 0 for what was said before, 1 for answers and their ends, `facts` for their facts, 0.03
    for the ends that fill. A list of such pairs, one for each length. A share of `traits` of those
    that are not about how the hero is are left out, and how it is has ten times the weight of other facts."""
    rng, ids, out = random.Random(seed), {t: i for i, t in enumerate(vocab)}, {}
    encode = encoder(vocab, merges)
    user, assistant, end = (ids[t] for t in (dialogues.USER, dialogues.ASSISTANT, dialogues.END))
    for _ in range(count):
        kind, turns, f, first = dialogues.dialogue(rng, more=4)
        about = f and (f["trait"] in turns[0] if kind == "tell" else turns[-1] == f"{f['name']} is {f['trait']}.")
        if not about and rng.random() < traits:
            continue
        tokens, weights = [], []
        for i, t in enumerate(turns):
            part = encode(t)
            heavy = weights_of(part, t, f, vocab, facts, traits and f and f["trait"])
            tokens += [assistant] + part + [end] if i % 2 else [user] + part
            weights += [0.0] + heavy + [1.0] if i % 2 and i >= first else [0.0] * (len(part) + 1 + i % 2)
        rest = -len(tokens) % 32
        if len(tokens) <= LENGTH and rng.random() < 0.4:  # more room than the answer takes
            rest += rng.randrange(0, LENGTH + 1 - len(tokens) - rest, 32)
        if len(tokens) <= LENGTH:
            out.setdefault(len(tokens) + rest, []).append((tokens + [end] * rest, weights + [0.03] * rest))
    return [(torch.tensor([x for x, _ in d]), torch.tensor([w for _, w in d])) for d in out.values()]


def answer_batch(data, n):
    """n dialogues of one length, masked; the weights of a dialogue's tokens add up to 1/n."""
    tokens, weights = random.choices(data, [len(x) for x, _ in data])[0]
    pick = torch.randint(0, len(tokens), (n,))
    x, w = tokens[pick].to(DEVICE), weights[pick].to(DEVICE)
    least = torch.where((w >= 1).sum(1) > 80, 0.01, 0.4)[:, None]  # few known tokens of short answers, so that they are read from the story
    return hide(x, w / w.sum(1, keepdim=True) / n, least)


CANVASES = [32] * 5 + [64] * 4 + [96] * 4 + [128] * 3 + [160] * 2 + [192, 256]


def draw_conversations(count, seed, vocab, merges, hard):
    """Conversations in tokens, by their lengths: {length: [(tokens, weights, spans)]}. The last answer has a canvas
    of 32 to 256 positions, which ends fill. A weight is a token's in the loss: 0.03 for what fills, 3 for facts. Spans
    are where answers begin and, with their ends, stop. What does not fit loses its oldest turns, as in a chat."""
    rng, ids, out = random.Random(seed), {t: i for i, t in enumerate(vocab)}, {}
    encode = encoder(vocab, merges)
    user, assistant, end, by = (ids[t] for t in (dialogues.USER, dialogues.ASSISTANT, dialogues.END, dialogues.SYSTEM))
    for _ in range(count):
        system, turns, kinds, f = dialogues.conversation(rng)
        head = [by] + encode(system) if system else []
        parts = [encode(t) for t in turns]
        room = next(n for n in rng.sample(CANVASES, len(CANVASES)) + [256] if n > len(parts[-1]))
        most = rng.choices((256, 384, LENGTH), (5, 4, 1))[0] - room - len(head)
        first = max((i for i in range(0, len(parts), 2) if sum(map(len, parts[i:-1])) + 3 * len(parts[i:]) // 2 > most), default=-2) + 2
        if first >= len(parts):
            continue
        tokens, weights, spans = head, [0.0] * len(head), []
        for i in range(first, len(parts), 2):
            tokens = tokens + [user] + parts[i] + [assistant]
            heavy = weights_of(parts[i + 1], turns[i + 1], f, vocab, 3.0)
            spans.append((len(tokens), len(tokens) + len(parts[i + 1]) + 1))
            weights += [0.0] * (len(parts[i]) + 2) + heavy + [1.0]
            tokens += parts[i + 1] + [end]
        length = -(-(spans[-1][0] + room) // 32) * 32  # so the canvas is up to 31 positions longer
        rest = length - len(tokens)
        row = tokens + [end] * rest, weights + [0.03] * rest, spans
        out.setdefault(length, []).extend([row] * (hard if turns[-1].startswith(dialogues.HARD) else 1))
    return out


def conversation_batch(data, n):
    """n conversations of one length, masked. Two in three last answers are on their way from left to right in
    blocks of 8 to 32, the others have any share of masks. Of earlier answers the short ones have masks too, and
    some of the stories a gap."""
    rows = random.choices(data[random.choices(list(data), [len(d) for d in data.values()])[0]], k=n)
    x, w = torch.tensor([r[0] for r in rows]), torch.tensor([r[1] for r in rows])
    hidden, near = torch.zeros_like(x, dtype=torch.bool), torch.ones_like(w)
    for i, (_, _, spans) in enumerate(rows):
        for lo, hi in spans[:-1]:
            if hi - lo > 40:
                if random.random() < 0.7:
                    continue
                lo = random.randrange(lo, hi)
                hi = min(hi, lo + 16)
            near[i, lo:hi] = 0.5
            hidden[i, lo:hi] = torch.rand(hi - lo) < random.uniform(0.3, 1)
        lo, hi = spans[-1]
        if random.random() < 0.67:
            block = random.choice((8, 16, 16, 32))
            lo += block * random.randrange((hi - lo + block - 1) // block)
            hi = lo + block
            hidden[i, lo:hi] = torch.rand(hidden[i, lo:hi].shape) < random.uniform(0.1, 1.05)
            hidden[i, hi:] = True
            near[i, hi:] = 0.4 * torch.exp(-torch.arange(len(near[i, hi:])) / 12)
        else:
            hidden[i, lo:] = torch.rand(hidden[i, lo:].shape) < random.uniform(0, 1.02)
            near[i, lo:] = 0.6
    return torch.where(hidden, VOCAB, x), x, w * near * hidden / (16 * n)


def story_loss(data, n, weight=None):
    return lambda model: model(*story_batch(data, n, weight))


def judge_loss(data, n):
    def loss(model):
        x = batch(data, n)
        return F.cross_entropy(model(x)[:, :-1].float().flatten(0, 1), x[:, 1:].flatten())
    return loss


@torch.no_grad()
def sample(model, vocab, steps=64):
    x = torch.full((1, LENGTH), VOCAB, device=DEVICE)
    if fewsteps.BOS in vocab:
        x[0, 0] = vocab.index(fewsteps.BOS)
    for n in range(steps):
        p = model(x).float()
        p[..., VOCAB] = -1e9
        p = p.softmax(-1)[0]
        hidden = torch.nonzero(x[0] == VOCAB).flatten()
        k = max(1, round(LENGTH * (n + 1) / steps) - (LENGTH - len(hidden)))
        score = (p[hidden] ** 1.3).sum(-1).log() - torch.log(-torch.log(torch.rand(len(hidden), device=DEVICE)))
        pick = hidden[score.topk(min(k, len(hidden))).indices]
        x[0, pick] = torch.multinomial(p[pick], 1)[:, 0]
    return bpe.decode(x[0].tolist(), vocab)


def load(path):
    """A bfloat16 safetensors file as float32 tensors, the prefix stripped."""
    raw = open(path, "rb").read()
    n = int.from_bytes(raw[:8], "little")
    out = {}
    for k, v in json.loads(raw[8:8 + n]).items():
        if k != "__metadata__":
            lo, hi = v["data_offsets"]
            t = torch.frombuffer(bytearray(raw[8 + n + lo:8 + n + hi]), dtype=torch.bfloat16)
            out[k.removeprefix("backbone.")] = t.reshape(v["shape"]).float()
    return out


@torch.no_grad()
def adopt(model, new, vocab):
    """Gives tokens that took over an id the mean of their parts' weights; special ones the newline's."""
    e, w, b = model.vocab_embed.embedding, model.output_layer.linear.weight, model.output_layer.linear.bias
    for token, parts in new.items():
        i = vocab.index(token)
        like = [vocab.index(bpe.CHARS[32] + token)] if bpe.CHARS[32] + token in vocab else [vocab.index(p) for p in parts or [bpe.CHARS[10]]]
        for v in (e, w, b):
            v[i] = v[like].mean(0)
        if not parts:
            e[i] += 0.3 * torch.randn(WIDTH)
            b[i] -= 4


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--resume", help="an OUTDIR of before to go on from; 0 minutes leave a model as it is")
    a.add_argument("text")
    a.add_argument("out")
    a.add_argument("--minutes", type=float, default=45, help="of processor time")
    a.add_argument("--judge-minutes", type=float, default=10)
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--device", default="cpu")
    a.add_argument("--bf16", action="store_true", help="where the processor multiplies bfloat16, and on GPUs")
    a.add_argument("--compile", action="store_true", help="let torch.compile fuse what it can; needs a C++ compiler")
    a.add_argument("--facts", type=float, default=1, help="weight in the loss of the names, animals, colours and things that a story repeats")
    a.add_argument("--dialogues", type=int, default=0, help="so many dialogues are learned too (dialogues.py)")
    a.add_argument("--conversations", type=int, default=0, help="so many conversations are learned and nothing else, in up to 512 positions")
    a.add_argument("--hard", type=int, default=1, help="so many times a conversation counts that ends with Yes, No or that there is no story")
    a.add_argument("--traits", type=float, default=0, help="this share of the dialogues that are not about how the hero is are left out")
    a.add_argument("--few-steps", action="store_true", help="sentences fill slots, and most masks are those of a run of 32 steps (fewsteps.py)")
    a.add_argument("--lr", type=float, default=1e-3)
    a.add_argument("--batch", type=int, default=16)
    a = a.parse_args()
    global DEVICE, BF16, COMPILE, LENGTH
    DEVICE, BF16, COMPILE = a.device, a.bf16, a.compile
    if a.conversations:
        LENGTH = 512
    rank = int(os.environ.get("RANK", 0))
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
    torch.set_num_threads(a.threads)
    torch.manual_seed(7)
    text = open(a.text).read()
    if a.resume:
        vocab, merges, parts = bpe.load(os.path.join(a.resume, "text", "tokenizer.json"), "" if a.few_steps else text)
    else:
        vocab, merges, parts = bpe.train(text, VOCAB)
    new = {}
    if a.dialogues and dialogues.USER not in vocab:
        vocab, merges, new = bpe.extend(vocab, merges, parts, [dialogues.USER, dialogues.ASSISTANT, dialogues.END] + dialogues.BETWEEN,
                                        dialogues.MARKS, dialogues.WORDS)
    if a.conversations and dialogues.SYSTEM not in vocab:
        rng = random.Random(1)  # what conversations use stays as it is
        said = " ".join(t for _ in range(2000) for t in dialogues.conversation(rng)[1])
        parts = parts | bpe.divide(said, merges) | {t: (t,) for t in dialogues.BETWEEN}
        vocab, merges, new = bpe.extend(vocab, merges, parts, [dialogues.SYSTEM], [], [])
    if a.few_steps:
        marks = [t for t in (fewsteps.PAD, fewsteps.BOS) if t not in vocab]
        vocab, merges, new = bpe.extend(vocab, merges, bpe.divide(text[:1 << 22], merges), marks, [], [])
        ids = torch.from_numpy(fewsteps.rows(text, vocab, merges, LENGTH))
        cut = int(len(ids) * 0.97)
        seen_data, held_data = ids[:cut], ids[cut:]
    else:
        ids = torch.tensor(bpe.encode(text, vocab, parts))
        cut = int(len(ids) * 0.97)
        starts = torch.nonzero(ids == vocab.index(bpe.CHARS[10])).flatten() + 1
        starts = starts[starts < len(ids) - LENGTH]
        seen_data, held_data = (ids[:cut], starts[starts < cut - LENGTH]), (ids[cut:], starts[starts >= cut] - cut)
    tok = bpe.tokenizer_json(vocab, merges)
    for name, model, loss, minutes in (
            ("judge", Judge(), judge_loss, a.judge_minutes),
            ("text", Denoiser(), story_loss, a.minutes)):
        if minutes == 0:
            continue
        model.to(DEVICE)
        if a.resume:
            before = load(os.path.join(a.resume, name, "model.safetensors"))
            with torch.no_grad():
                for k, v in (model.weights() if name == "judge" else dict(model.named_parameters())).items():
                    v.copy_(before[k])
                if name == "text":
                    adopt(model, new, vocab)
        torch.manual_seed(11 + rank)
        print(name, sum(p.numel() for p in model.parameters()) / 1e6, "M parameters", flush=True)
        model.train()

        def part(ema, step):
            if rank:
                return
            w = {("backbone." if name == "text" else "") + k: v for k, v in ema.items()}
            if name == "judge":
                w = dict(zip(model.names, ema.values()))
            os.makedirs(os.path.join(a.out, name), exist_ok=True)
            save(os.path.join(a.out, name, "model.safetensors"), {k: v.cpu().to(torch.bfloat16) for k, v in w.items()})

        weigh = ()
        if name == "text":
            weight = torch.ones(VOCAB, device=DEVICE)
            facts = ("girl boy".split() + stories.GIRLS + stories.BOYS + stories.ANIMALS
                     + stories.COLOURS + stories.SMALL)
            for word in facts:
                weight[vocab.index(bpe.CHARS[32] + word)] = a.facts
            weigh = (weight,)
        train = loss(seen_data, a.batch, *weigh)
        if name == "text" and a.few_steps:
            masks = fewsteps.Masks(seen_data.numpy(), vocab, weight, 11 + rank)

            def train(run):
                return run(*masks.batch()) + 0.3 * model(*masks.short())  # compiled for one length
        if name == "text" and a.dialogues:
            asked = draw_dialogues(a.dialogues, a.dialogues, vocab, merges, 4 * a.facts, a.traits)
            print("dialogues", {len(x[0]): len(x) for x, _ in asked}, flush=True)
            few = a.batch // 4  # stories; the rest are dialogues

            def train(run):
                answers = answer_batch(asked, a.batch - few)
                told = story_batch(seen_data, few, *weigh, length=answers[0].shape[1])
                return run(*(torch.cat(p) for p in zip(told, answers)))
        if name == "text" and a.conversations:
            told = draw_conversations(a.conversations, a.conversations + rank, vocab, merges, a.hard)
            print("conversations", {n: len(d) for n, d in sorted(told.items())}, flush=True)

            def train(run):
                return run(*(t.to(DEVICE) for t in conversation_batch(told, a.batch)))
        steps = fit(model, train, minutes, a.lr, name, part)
        if rank:
            return
        model.eval()
        torch.manual_seed(1)
        with torch.no_grad():
            held = sum(loss(held_data, 32)(model).item() for _ in range(16)) / 16
            seen = sum(loss(seen_data, 32)(model).item() for _ in range(16)) / 16
        print(f"{name}: {steps} steps, loss seen {seen:.4f}, held out {held:.4f} nats a token", flush=True)
        d = os.path.join(a.out, name)
        os.makedirs(d, exist_ok=True)
        if name == "text":
            w = {"backbone." + k: v for k, v in model.state_dict().items()}
            config = {"model": {"type": "ddit-orig", "hidden_size": WIDTH, "cond_dim": COND, "length": LENGTH,
                                "n_blocks": BLOCKS, "n_heads": HEADS, "scale_by_sigma": True, "dropout": 0.0,
                                "tie_word_embeddings": False},
                      "time_conditioning": False, "T": 0, "noise": {"type": "loglinear"},
                      "tokenizer": {"name": "tokenizer.json"}, "vocab_size": VOCAB + 1}
            if a.few_steps:
                config |= {"bos_token_id": vocab.index(fewsteps.BOS), "pad_token_id": vocab.index(fewsteps.PAD),
                           "unmask_recipe": fewsteps.RECIPE}
            print(sample(model, vocab), flush=True)
        else:
            w = model.weights()
            config = {"model_type": "gpt2", "n_embd": WIDTH, "n_layer": BLOCKS, "n_head": HEADS, "n_ctx": LENGTH,
                      "n_positions": LENGTH, "vocab_size": VOCAB, "layer_norm_epsilon": 1e-5,
                      "activation_function": "gelu_new"}
        config["training"] = {"loss_seen_nats": round(seen, 4), "loss_held_out_nats": round(held, 4), "steps": steps}
        json.dump(config, open(os.path.join(d, "config.json"), "w"), indent=1)
        json.dump(tok, open(os.path.join(d, "tokenizer.json"), "w"), ensure_ascii=False)
        save(os.path.join(d, "model.safetensors"), {k: v.cpu().to(torch.bfloat16) for k, v in w.items()})


if __name__ == "__main__":
    main()
