"""Trains the chat demo on the talks of talks.py, from the weights that it has.

    python3 train_chat.py OUT --resume ../chat [--threads 2]     begins, or goes on where OUT/state.pt is
    python3 train_chat.py OUT --anneal 2000                      lowers the rate to 0 in so many steps, and ends
    python3 train_chat.py OUT --steps 0                          only writes OUT/chat again

Every four minutes, and when the process is told to end (SIGTERM), OUT/state.pt gets weights, their mean and the
optimizers, and OUT/chat the model of the mean as unmask loads it; both are renamed into place. While OUT/pause exists
nothing is computed. Each talk is drawn once, by a process of its own. Needs torch only.

What it follows is how unmask answers by default: blocks of BLOCK positions from the left, of a canvas of 128, of which
a pass sees what is before the block's end, the next WINDOW masks and the last one. An answer ends with <|end|>, and
<|pad|> fills what is left.
"""
import argparse, json, math, multiprocessing, os, random, signal, sys, time
import torch
import torch.nn.functional as F
import bpe
import dialogues
import talks
import train_text
from train_text import WIDTH, HEADS, turn, optimisers, save

BLOCK, WINDOW, LENGTH, USUAL, OLD, VOCAB = 16, 16, 512, 128, 1024, 1535
TOOL, PAD = "<|tool|>", "<|pad|>"
MARK = {"system": dialogues.SYSTEM, "user": dialogues.USER, "assistant": dialogues.ASSISTANT, "tool": TOOL}
RECIPE = f"semi-ar(confidence,block={BLOCK}) window={WINDOW} steps={USUAL}"


class Encoder:
    """Tokens of a message, by word."""
    def __init__(self, vocab, merges):
        self.ids, self.vocab, self.merges, self.parts = {t: i for i, t in enumerate(vocab)}, vocab, merges, {}

    def __call__(self, text):
        out = []
        pieces = [text]
        for mark in dialogues.BETWEEN:  # they stand apart from all words
            pieces = [x for p in pieces for x in ([p] if p in dialogues.BETWEEN else cut_at(p, mark))]
        for piece in pieces:
            for w in [piece] if piece in dialogues.BETWEEN else bpe.SPLIT.findall(piece):
                if w not in self.parts:
                    if len(self.parts) > 200000:
                        self.parts.clear()
                    known = [w] if w in dialogues.BETWEEN else bpe.cut("".join(bpe.CHARS[b] for b in w.encode()), self.merges)
                    self.parts[w] = [self.ids[t] for t in known]
                out += self.parts[w]
        return out


def cut_at(text, mark):
    """The pieces of a text between marks, and the marks."""
    out = []
    for i, piece in enumerate(text.split(mark)):
        out += ([mark] if i else []) + ([piece] if piece else [])
    return out


class Rows:
    """Draws masked talks as rows."""
    def __init__(self, vocab, merges, seed):
        self.encode, self.rng, self.vocab = Encoder(vocab, merges), random.Random(seed), vocab
        self.mark = {role: vocab.index(m) for role, m in MARK.items()}
        self.end, self.pad, self.mask = vocab.index(dialogues.END), vocab.index(PAD), len(vocab)

    def heavy(self, kind, text, part, f):
        """The weights in the loss of an answer's tokens: more for what it must copy."""
        words = {str(f[k]) for k in ("name", "animal", "animal2", "color", "object", "trait", "friend", "place_noun") if f.get(k)} | {"Yes", "No"}
        if text.startswith("Call: "):
            return [2.0] * len(part)
        at, out = 0, []
        spans = [m.span() for m in talks.re.finditer(r"\b(?:%s)\b" % "|".join(map(talks.re.escape, words)), text)]
        for token in part:
            n = len(self.vocab[token])
            out.append(3.0 if any(lo < at + n and at < hi for lo, hi in spans) else 1.0)
            at += n
        return out

    def row(self):
        """Tokens with masks, positions, targets and weights of one talk, None if it is too long."""
        rng = self.rng
        kind, said, f = talks.talk(rng)
        system, turns = (said[:1], said[1:]) if said[0][0] == "system" else ([], said)
        parts = [(role, text, self.encode(text)) for role, text in turns]
        answer = parts[-1][2] + [self.end]
        canvas = 1 if kind == "decide" and rng.random() < 0.85 else USUAL if rng.random() < 0.6 else rng.choice((32, 48, 64, 96, 96, 160, 192, 256))
        if canvas > 1 and canvas < len(answer):
            canvas = USUAL
        answer = (answer + [self.pad] * canvas)[:max(canvas, 1)]
        head = [x for role, text in system for x in [self.mark[role]] + self.encode(text)]
        room = LENGTH - canvas - len(head) - 1
        before, k = [], len(parts) - 1
        while k > 0:  # what does not fit loses its oldest turns, as in a chat
            role, _, part = parts[k - 1]
            if sum(len(b[1]) for b in before) + len(part) + 2 > room:
                break
            before.insert(0, (role, [self.mark[role]] + part + ([self.end] if role == "assistant" else [])))
            k -= 1
        while before and before[0][0] != "user":
            before.pop(0)
        if not before or canvas > 1 and len(parts[-1][2]) + 1 > canvas:
            return None
        tokens, target, weight = list(head), list(head), [0.0] * len(head)
        for i, (role, part) in enumerate(before):
            if role == "assistant" and i < len(before) - 1 and len(part) < 32 and rng.random() < 0.3:  # earlier short answers, too
                share = rng.uniform(0.3, 1)
                hide = [j > 0 and rng.random() < share for j in range(len(part))]
                tokens += [self.mask if h else t for h, t in zip(hide, part)]
                weight += [0.5 * h for h in hide]
            else:
                tokens += part
                weight += [0.0] * len(part)
            target += part
        tokens.append(self.mark["assistant"])
        target.append(self.mark["assistant"])
        weight.append(0.0)
        start, n = len(tokens), len(parts[-1][2]) + 1
        w = self.heavy(kind, parts[-1][1], parts[-1][2], f) + [1.5]
        w = (w + [0.1] * canvas)[:canvas]
        at = list(range(start))
        if canvas == 1:
            return tokens + [self.mask], at + [start], target + answer, weight + [8.0]
        mode = rng.random()
        if mode < 0.82:
            size = BLOCK if rng.random() < (0.88 if kind != "tools" else 0.6) else rng.choice((8, 32, 32))
            lo = size * rng.randrange(-(-n // size))
            hi = min(lo + size, canvas)
            share = rng.uniform(0.05, 1.1)
            hide = [rng.random() < share for _ in range(hi - lo)]
            if rng.random() < 0.3:  # strictly from the left
                k = rng.randrange(hi - lo)
                hide = [j >= k for j in range(hi - lo)]
            # a grammar, such as that of calls, goes without a window
            window = WINDOW if rng.random() < (0.75 if kind != "tools" else 0.4) else rng.choice((0, 8, 32, 256, 256))
            for j in range(canvas):
                if j >= hi + window and j != canvas - 1:
                    continue
                hidden = j >= hi or j >= lo and hide[j - lo]
                at.append(start + j)
                tokens.append(self.mask if hidden else answer[j])
                target.append(answer[j])
                near = 1.0 if j < hi else 0.4 * math.exp((hi - j) / 10) if j < hi + 32 else 0.0
                weight.append(w[j] * near * hidden)
        else:
            share = rng.uniform(0, 1.02)
            for j in range(canvas):
                hidden = rng.random() < share
                at.append(start + j)
                tokens.append(self.mask if hidden else answer[j])
                target.append(answer[j])
                weight.append(0.5 * w[j] * hidden)
        return tokens, at, target, weight


def batches(vocab, merges, seed, queue, budget):
    """Puts batches of rows of about one length and `budget` tokens into a queue, for ever."""
    torch.set_num_threads(1)
    rows = Rows(vocab, merges, seed)
    while True:
        pool = [r for r in (rows.row() for _ in range(700)) if r and sum(r[3])]
        pool.sort(key=lambda r: len(r[0]))
        out = []
        while pool:
            n = max(1, min(len(pool), budget // len(pool[-1][0])))
            part, pool = pool[-n:], pool[:-n]
            long = max(len(r[0]) for r in part)
            fill = lambda i, x: torch.tensor([r[i] + [x] * (long - len(r[i])) for r in part])
            out.append((fill(0, 0), fill(1, 0), fill(2, 0), fill(3, 0.0), torch.tensor([len(r[0]) for r in part])))
        rows.rng.shuffle(out)
        for b in out:
            queue.put(b)


class Denoiser(train_text.Denoiser):
    """The network of the text demo, on positions that need not follow each other."""
    def forward(self, tokens, at, targets, weights, lengths):
        """The weighted sum of cross-entropies."""
        zero = torch.cat([torch.ones(1, 128), torch.zeros(1, 128)], -1)
        c = F.silu(self.sigma_map.mlp(zero))
        x = self.vocab_embed.embedding[tokens]
        cos, sin = self.cos[at][:, None], self.sin[at][:, None]
        B, S = tokens.shape
        bias = None
        if lengths.min() < S:
            bias = torch.zeros(B, 1, 1, S).masked_fill(torch.arange(S)[None, None, None] >= lengths[:, None, None, None], -1e9)
        rows = weights.flatten().nonzero()[:, 0]
        for i, b in enumerate(self.blocks):  # what modulates is the same for all positions, so it goes into the weights
            sh1, sc1, g1, sh2, sc2, g2 = b.adaLN_modulation(c)[0].chunk(6, -1)
            h = F.layer_norm(x, (WIDTH,), b.norm1.weight * (1 + sc1), sh1)
            q, k, v = b.attn_qkv(h).view(B, S, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(turn(q, cos, sin), turn(k, cos, sin), v, attn_mask=bias)
            a = a.transpose(1, 2).reshape(B, S, -1)
            if i == len(self.blocks) - 1:  # behind the last attention only what counts is needed
                x, a = x.flatten(0, 1)[rows], a.flatten(0, 1)[rows]
            x = x + F.linear(a, b.attn_out.weight * g1[:, None])
            h = F.layer_norm(x, (WIDTH,), b.norm2.weight * (1 + sc2), sh2)
            h = F.gelu(b.mlp[0](h), approximate="tanh")
            x = x + F.linear(h, b.mlp[2].weight * g2[:, None], b.mlp[2].bias * g2)
        logits = self.output_layer(x, c)[:, :VOCAB]
        loss = F.cross_entropy(logits, targets.flatten()[rows], reduction="none") * weights.flatten()[rows]
        return loss.sum()


def vocabulary(folder):
    """The vocabulary and merges of a chat model, with the words of talks and the marks of tools and pads."""
    vocab, merges, _ = bpe.load(os.path.join(folder, "tokenizer.json"), "")
    if len(vocab) == VOCAB:
        return vocab, merges
    rng, said = random.Random(5), []
    for _ in range(12000):
        said += [text for _, text in talks.talk(rng)[1]]
    text = "\n".join(said)
    for mark in dialogues.BETWEEN:
        text = text.replace(mark, "\n")
    vocab, merges = bpe.grow(vocab, merges, text, VOCAB - 2)
    assert len(vocab) == VOCAB - 2
    return vocab + [TOOL, PAD], merges


@torch.no_grad()
def adopt(model, folder, vocab, merges):
    """Takes the weights of a folder. New tokens begin as the mean of their parts, marks as others of their kind."""
    before, old = train_text.load(os.path.join(folder, "model.safetensors")), OLD
    made = {a + b: (a, b) for a, b in merges}
    like = {TOOL: dialogues.USER, PAD: dialogues.END}

    def parts(t):
        i = vocab.index(like.get(t, t))
        return [i] if i < old else parts(made[t][0]) + parts(made[t][1])
    for name, p in model.named_parameters():
        was = before[name]
        if was.shape == p.shape:
            p.copy_(was)
            continue
        for i, t in enumerate(vocab):
            p[i] = was[parts(t)].mean(0)
        p[len(vocab)] = was[old]  # the mask
    for t in like:
        model.vocab_embed.embedding[vocab.index(t)] += 0.3 * torch.randn(WIDTH)


def export(out, ema, vocab, merges, step):
    """Writes OUT/chat, what unmask loads."""
    d = os.path.join(out, "chat")
    os.makedirs(d, exist_ok=True)
    config = {"model": {"type": "ddit-orig", "hidden_size": WIDTH, "cond_dim": train_text.COND, "length": LENGTH, "n_blocks": train_text.BLOCKS,
                        "n_heads": HEADS, "scale_by_sigma": True, "dropout": 0.0, "tie_word_embeddings": False},
              "time_conditioning": False, "T": 0, "noise": {"type": "loglinear"}, "tokenizer": {"name": "tokenizer.json"}, "vocab_size": VOCAB + 1,
              "pad_token_id": vocab.index(PAD), "training": {"steps": step}, "unmask_answer_length": USUAL, "unmask_recipe": RECIPE}
    here = os.path.dirname(os.path.abspath(__file__))
    files = {"config.json": json.dumps(config, indent=1), "tokenizer.json": json.dumps(bpe.tokenizer_json(vocab, merges), ensure_ascii=False),
             "chat_template.jinja": open(os.path.join(here, "chat_template.jinja")).read()}
    for name, text in files.items():
        open(os.path.join(d, name + ".new"), "w").write(text)
        os.replace(os.path.join(d, name + ".new"), os.path.join(d, name))
    save(os.path.join(d, "model.safetensors.new"), {"backbone." + k: v.to(torch.bfloat16) for k, v in ema.items()})
    os.replace(os.path.join(d, "model.safetensors.new"), os.path.join(d, "model.safetensors"))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("out")
    a.add_argument("--resume", help="a chat model to begin with, if OUT has no state")
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--lr", type=float, default=8e-4)
    a.add_argument("--budget", type=int, default=4096, help="tokens of a part of a step")
    a.add_argument("--parts", type=int, default=2, help="parts of a step")
    a.add_argument("--compile", action="store_true", help="compile the network first: two minutes, then a tenth faster")
    a.add_argument("--steps", type=int, default=1 << 30, help="ends after so many steps of all")
    a.add_argument("--anneal", type=int, default=0, help="the rate falls to 0 within so many steps from now, and the run ends")
    a = a.parse_args()
    train_text.VOCAB, train_text.LENGTH = VOCAB, LENGTH
    torch.set_num_threads(a.threads)
    torch.manual_seed(3)
    os.makedirs(a.out, exist_ok=True)
    state_file, words = os.path.join(a.out, "state.pt"), os.path.join(a.out, "chat")
    state = torch.load(state_file, weights_only=False) if os.path.exists(state_file) else None
    model = Denoiser()
    run = torch.compile(model, dynamic=True) if a.compile else model
    if state:
        vocab, merges = state["vocab"], state["merges"]
        model.load_state_dict(state["model"])
    else:
        vocab, merges = vocabulary(a.resume)
        adopt(model, a.resume, vocab, merges)
    opts = optimisers(model, a.lr)
    ema = {k: v.detach().clone() for k, v in model.named_parameters()}
    step, seconds, fall = 0, 0.0, None
    if state:
        for opt, was in zip(opts, state["opts"]):
            opt.load_state_dict(was)
        ema, step, seconds, fall = state["ema"], state["step"], state["seconds"], state["fall"]
    if a.anneal and fall is None:
        fall = step, a.anneal
    last = min(a.steps, sum(fall) if fall else 1 << 30)

    def keep():
        torch.save({"model": model.state_dict(), "ema": ema, "opts": [o.state_dict() for o in opts], "step": step, "seconds": seconds, "fall": fall,
                    "vocab": vocab, "merges": merges}, state_file + ".new")
        os.replace(state_file + ".new", state_file)
        export(a.out, ema, vocab, merges, step)

    if a.steps == 0:
        return export(a.out, ema, vocab, merges, step)
    ctx = multiprocessing.get_context("spawn")
    queue = ctx.Queue(24)
    ctx.Process(target=batches, args=(vocab, merges, 1000003 * (1 + step), queue, a.budget), daemon=True).start()
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    shown, wrote, count, tokens = [], time.time(), 0, 0
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters, from step {step}", flush=True)
    while step < last and not stop:
        while not stop and os.path.exists(os.path.join(a.out, "pause")):
            time.sleep(3)
        begin = time.time()
        scale = min(1, (step + 1) / 60)
        if fall:
            scale = max(0.0, 1 - (step - fall[0]) / fall[1]) + 0.005
        for opt, base in zip(opts, (2 * a.lr, a.lr)):
            for g in opt.param_groups:
                g["lr"] = base * scale
        for opt in opts:
            opt.zero_grad(set_to_none=True)
        loss = rows = 0
        for _ in range(a.parts):
            part = queue.get()
            value = run(*part) / (8 * len(part[0]) * a.parts)
            value.backward()
            loss, tokens = loss + value.item(), tokens + part[0].numel()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
        step += 1
        decay = min(0.998, (step + 1) / (step + 10))
        with torch.no_grad():
            for k, v in model.named_parameters():
                ema[k].lerp_(v, 1 - decay)
        seconds += time.time() - begin
        count += time.time() - begin
        shown.append(loss)
        if step % 10 == 0:
            print(f"step {step} loss {sum(shown[-20:]) / 20:.4f} of 100 {sum(shown[-100:]) / len(shown[-100:]):.4f}, {tokens / count:.0f} tokens/s, {seconds / 60:.0f} min", flush=True)
            if math.isnan(loss):
                sys.exit("the loss is no number")
        if time.time() - wrote > 240 or step == last or stop:
            wrote = time.time()
            keep()


if __name__ == "__main__":
    main()
