"""What the text model learns to write with few steps: one story a text, in which each sentence fills a slot,
and most of training is on the very masks of such a run, with exact answers where little is known.

A network of this size takes a word 8 positions away for one 7 or 9 away. So while few words are known, it
cannot tell which sentences fit between them, and what it opens in one step fits nothing later. Where each
sentence begins at a multiple of SLOT and <|pad|> fills its end, what is opened first are beginnings of
sentences, and no distance has to be counted beyond one sentence. With rotary positions alone a network cannot
know where it is in a text of masks; it counts from <|bos|>, the known first token of every text.
"""
import math, re
import numpy as np
import torch
import bpe

BOS, PAD, SLOT, STEPS = "<|bos|>", "<|pad|>", 16, 32
RECIPE = "halton(gamma=1.25) schedule=cosine steps=64"  # the model's default run
SENTENCE = re.compile(r'(?<=[.!?])(?= [A-Z"])|(?<=[.!?]")(?= [A-Z"])')


def rows(text, vocab, merges, length):
    """The stories of a text, one a line, as ids [stories, length]: <|bos|>, then sentences, each filled up to a
    multiple of SLOT. Stories that are longer are left out."""
    ids, words, out = {t: i for i, t in enumerate(vocab)}, {}, []
    for line in text.splitlines():
        row = [ids[BOS]]
        for s in SENTENCE.split(line):
            for w in bpe.SPLIT.findall(s):
                if w not in words:
                    words[w] = [ids[t] for t in bpe.cut("".join(bpe.CHARS[b] for b in w.encode()), merges)]
                row += words[w]
            row += [ids[PAD]] * (-len(row) % SLOT)
        if len(row) <= length:
            out.append(np.array(row + [ids[PAD]] * (length - len(row)), np.int16))
    return np.stack(out)


def halton(n):
    """The positions in the order of unmask's sampler halton: base-2 radical inverses of 1, 2, 3, ... scaled
    to n, first occurrences."""
    out, k = [], 1
    while len(out) < n:
        v = int(format(k, "b")[::-1], 2) * n >> k.bit_length()
        k += 1
        if v not in out:
            out.append(v)
    return np.array(out)


class Masks:
    """Draws masked texts of rows [stories, length]."""
    def __init__(self, rows, vocab, weight, seed):
        self.rows, self.length, self.weight = rows, rows.shape[1], weight
        self.columns = np.ascontiguousarray(rows.T)  # [length, stories]
        self.mask, self.pad = len(vocab), vocab.index(PAD)
        self.rng = np.random.default_rng(seed)
        order = halton(self.length)
        self.order = np.concatenate([[0], order[order > 0]])  # the first token is always known
        self.rank = np.argsort(self.order)
        self.opened, known = [], 1  # (known before, known after) each step, by the cosine schedule
        for s in range(1, STEPS + 1):
            after = max(known + 1, self.length - round((self.length - 1) * math.cos(math.pi / 2 * s / STEPS)))
            self.opened.append((known, after))
            known = after

    def importance(self, known, after):
        """Weights [length] of the positions in a step's loss: those that it opens, and less of what comes later."""
        j = np.arange(self.length)
        w = np.where(j < after, 1.0, ((after - known + 6) / np.maximum(j - known + 6, 1)) ** 1.5)
        w[:known] = 0
        return torch.from_numpy((w / w.sum())[self.rank]).float()

    def stories(self, n):
        """n stories."""
        return torch.from_numpy(self.rows[self.rng.integers(0, len(self.rows), n)].astype(np.int64))

    def prompted(self, y):
        """A story whose first sentences have no pads between them, as prompts have none, and the number of tokens of
        a prompt, which may end within a sentence. What follows the sentences begins at a multiple of SLOT."""
        said = SLOT * self.rng.integers(1, 15)
        prompt = y[:said][y[:said] != self.pad]
        row = torch.cat([prompt, prompt.new_full((-len(prompt) % SLOT,), self.pad), y[said:]])
        return torch.cat([row, row.new_full((self.length - len(row),), self.pad)]), self.rng.integers(2, len(prompt) + 1)

    def on_the_way(self, n):
        """n texts before a step of halton with the cosine schedule, steps spread evenly; one in three has a prompt."""
        y = self.stories(n)
        x, w = torch.empty_like(y), torch.zeros(n, self.length)
        rank = torch.from_numpy(self.rank)
        for i in range(n):
            known, after = self.opened[int((self.rng.random() + i) / n * STEPS)]
            y[i], prompt = self.prompted(y[i]) if self.rng.random() < 0.35 else (y[i], 1)
            hidden = (rank >= known) & (torch.arange(self.length) >= prompt)
            x[i] = torch.where(hidden, self.mask, y[i])
            w[i] = self.importance(known, after) * hidden
            w[i] /= max(w[i].sum(), 1e-6)
        return x, y, w

    def nearly_masked(self, n):
        """n texts with 3 to 60 known tokens anywhere."""
        y = self.stories(n)
        hidden = torch.rand(y.shape).argsort(1).argsort(1) >= 3 * torch.exp(torch.rand(n, 1) * math.log(20))
        return self.even(y, hidden)

    def easy_first(self, n):
        """n texts of which pads are known, any share of them, and fewer other tokens: what rules open that begin
        with what is most certain."""
        y = self.stories(n)
        share = torch.rand(n, 1)
        return self.even(y, torch.rand(y.shape) >= torch.where(y == self.pad, share, share * 0.3 * torch.rand(n, 1)))

    def even(self, y, hidden):
        """Texts whose hidden positions have the same weight; the first is never hidden."""
        hidden[:, 0] = False
        return torch.where(hidden, self.mask, y), y, hidden / hidden.sum(1, keepdim=True).clamp(min=1)

    def anyhow(self, n, length=None):
        """n texts of a length with a share of their tokens masked, even over all shares. One in three begins with
        sentences that have no pads; of one in three of these nothing but a prompt is known."""
        y, length = self.stories(n), length or self.length
        share = torch.from_numpy((self.rng.random() + np.arange(n) / n) % 1)[:, None].float() * 0.999 + 0.001
        hidden = torch.rand(y.shape) < share
        for i in np.flatnonzero(self.rng.random(n) < 0.35):
            y[i], prompt = self.prompted(y[i])
            if self.rng.random() < 0.35:
                prompt = 1 + (prompt - 1) % (length - 1)
                hidden[i], share[i] = torch.arange(self.length) >= prompt, 1 - prompt / length
        hidden[:, 0] = False
        y, hidden = y[:, :length], hidden[:, :length]
        return torch.where(hidden, self.mask, y), y, hidden / share / length

    def short(self, tokens=1024):
        """Texts of one length, which is shorter than most stories, with about so many tokens together. They end
        where that length ends, within a story, as those of a user who asks for a few tokens."""
        length = int(4 * 32 ** self.rng.random())
        n = tokens // length
        x, y, w = self.anyhow(n, length)
        return x, y, w * self.weight[y] / n

    def exact(self, least=12, most=2000):
        """A text of which at most twelve tokens after the first are known, those of halton or any, and the answer:
        how often each token stands at each position, [length, vocabulary], of the stories that agree. Also the
        positions' weights."""
        rng = self.rng
        while True:
            known = rng.integers(1, 14)
            if rng.random() < 0.7:
                at, w = self.order[:known], self.importance(known, known + 1)
            else:
                at, w = np.concatenate([[0], rng.integers(1, self.length, known - 1)]), torch.full((self.length,), 1 / self.length)
            said = self.rows[rng.integers(0, len(self.rows)), at]
            found = np.arange(len(self.rows))
            for p, token in zip(at[1:], said[1:]):
                found = found[self.columns[p, found] == token]
            if len(found) < least:
                continue
            if len(found) > most:
                found = rng.choice(found, most, replace=False)
            text = torch.from_numpy(self.rows[found].astype(np.int64))
            answer = torch.zeros(self.length, self.mask).scatter_add_(1, text.T.contiguous(), torch.full(text.T.shape, 1 / len(found)))
            x = torch.full((self.length,), self.mask)
            x[at] = torch.from_numpy(said.astype(np.int64))
            return x, answer, w

    def batch(self, exact=2, path=5, near=1, easy=2, any_=5):
        """Masked texts, their tokens, the positions' weights, which add up to about 1, and the exact answers
        of the first texts, whose tokens are 0."""
        known = [self.exact() for _ in range(exact)]
        parts = [self.on_the_way(path), self.nearly_masked(near), self.easy_first(easy), self.anyhow(any_)]
        x, y, w = (torch.cat(p) for p in zip(*parts))
        w = w * self.weight[y]
        first = torch.zeros(exact, self.length, dtype=torch.long)
        w = torch.cat([torch.stack([k[2] for k in known]), w]) / (exact + len(x))
        return torch.cat([torch.stack([k[0] for k in known]), x]), torch.cat([first, y]), w, torch.stack([k[1] for k in known])
