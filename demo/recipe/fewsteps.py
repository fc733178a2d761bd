"""What the text model learns to write with few steps: a sentence fills a slot, and most of training is on
the very masks of such a run, with exact answers where little is known.

A network of this size takes a word 8 positions away for one 7 or 9 away. So while few words are known, it
cannot tell which sentences fit between them, and what it opens in one step fits nothing later. Where each
sentence begins at a multiple of SLOT and <|pad|> fills its end, what is opened first are beginnings of
sentences, and no distance has to be counted beyond one sentence.
"""
import math, re
import numpy as np
import torch
import bpe

PAD, SLOT, STEPS = "<|pad|>", 16, 32
SENTENCE = re.compile(r'(?<=[.!?])(?= [A-Z"])|(?<=[.!?]")(?= [A-Z"])|(?<=\n)')


def slots(text, vocab, merges):
    """The ids of a text, each of its sentences filled up to a multiple of SLOT."""
    ids, cache, out, some = {t: i for i, t in enumerate(vocab)}, {}, [], []
    words = {}
    for line in text.splitlines(keepends=True):
        for s in SENTENCE.split(line):
            if s not in cache:
                row = []
                for w in bpe.SPLIT.findall(s):
                    if w not in words:
                        words[w] = [ids[t] for t in bpe.cut("".join(bpe.CHARS[b] for b in w.encode()), merges)]
                    row += words[w]
                cache[s] = row + [ids[PAD]] * (-len(row) % SLOT)
            some += cache[s]
        if len(some) > 1000000:
            out.append(np.array(some, np.int16))
            some = []
    return np.concatenate(out + [np.array(some, np.int16)])


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
    """Draws masked texts from a stream of slots."""
    def __init__(self, stream, length, vocab, weight, seed):
        self.stream, self.length, self.weight = stream, length, weight
        self.mask, self.pad = len(vocab), vocab.index(PAD)
        self.rng = np.random.default_rng(seed)
        self.last = len(stream) - 3 * length
        ends = np.flatnonzero(stream[:self.last] == vocab.index(bpe.CHARS[10])) + 1
        self.starts = -(-ends // SLOT) * SLOT
        self.order = halton(length)
        self.rank = np.argsort(self.order)
        self.places = np.argsort(stream, kind="stable").astype(np.int32)  # of each token
        self.bounds = np.searchsorted(stream[self.places], np.arange(len(vocab) + 1))
        self.opened, known = [], 0  # (known before, known after) each step, by the cosine schedule
        for s in range(1, STEPS + 1):
            after = max(known + 1, length - round(length * math.cos(math.pi / 2 * s / STEPS)))
            self.opened.append((known, after))
            known = after

    def importance(self, known, after):
        """Weights [length] of the positions in a step's loss: those that it opens, and less of what comes later."""
        j = np.arange(self.length)
        w = np.where(j < after, 1.0, ((after - known + 6) / np.maximum(j - known + 6, 1)) ** 1.5)
        w[:known] = 0
        return torch.from_numpy((w / w.sum())[self.rank]).float()

    def windows(self, n):
        """n texts, three in four from a story's beginning."""
        begin = self.rng.random(n) < 0.75
        at = np.where(begin, self.rng.choice(self.starts, n), self.rng.integers(0, self.last // SLOT, n) * SLOT)
        return torch.from_numpy(self.stream[at[:, None] + np.arange(self.length)].astype(np.int64))

    def on_the_way(self, n):
        """n texts before a step of halton with the cosine schedule, steps spread evenly."""
        y = self.windows(n)
        x, w = y.clone(), torch.zeros(n, self.length)
        rank = torch.from_numpy(self.rank)
        for i in range(n):
            known, after = self.opened[int((self.rng.random() + i) / n * STEPS)]
            x[i, rank >= known] = self.mask
            w[i] = self.importance(known, after)
        return x, y, w

    def nearly_masked(self, n):
        """n texts with 3 to 60 known tokens anywhere."""
        y = self.windows(n)
        hidden = torch.rand(y.shape).argsort(1).argsort(1) >= 3 * torch.exp(torch.rand(n, 1) * math.log(20))
        return torch.where(hidden, self.mask, y), y, hidden.float() / hidden.sum(1, keepdim=True)

    def anyhow(self, n):
        """n texts with a share of their tokens masked, even over all shares. One in three begins with sentences
        that have no pads, as prompts have none; of half of these a prompt is known, which may end within a
        sentence, and nothing else."""
        y = self.windows(n)
        share = torch.from_numpy((self.rng.random() + np.arange(n) / n) % 1)[:, None].float() * 0.999 + 0.001
        hidden = torch.rand(y.shape) < share
        for i in np.flatnonzero(self.rng.random(n) < 0.35):
            at, said = self.rng.choice(self.starts), SLOT * self.rng.integers(1, 9)
            row = self.stream[at:at + 2 * self.length].astype(np.int64)
            prompt = row[:said][row[:said] != self.pad]
            y[i] = torch.from_numpy(np.concatenate([prompt, row[said:]])[:self.length])
            if self.rng.random() < 0.5:
                known = self.rng.integers(2, len(prompt) + 1)
                hidden[i], share[i] = torch.arange(self.length) >= known, 1 - known / self.length
        return torch.where(hidden, self.mask, y), y, hidden / share / self.length

    def exact(self):
        """A text of which at most seven tokens are known, the first ones of halton or others, and the answer: how
        often each token stands at each position, [length, vocabulary], of the stream's texts that agree. Also
        the positions' weights."""
        rng = self.rng
        while True:
            if rng.random() < 0.7:
                known = rng.integers(0, 8)
                at, w = self.order[:known], self.importance(known, known + 1)
            else:
                gaps = np.exp(rng.uniform(0, math.log(40), rng.integers(0, 4))).astype(int)
                at = np.concatenate([[0], np.cumsum(np.maximum(gaps, 1))])
                if at[-1] > self.length - 26:
                    continue
                at = at + rng.integers(0, self.length - at[-1])
                w = torch.full((self.length,), 1 / self.length)
            said = self.stream[rng.integers(self.length // SLOT, self.last // SLOT) * SLOT + at]
            found = self.agree(at, said)
            if len(found) < 12:
                continue
            text = torch.from_numpy(self.stream[found[:, None] + np.arange(self.length)].astype(np.int64))
            answer = torch.zeros(self.length, self.mask).scatter_add_(1, text.T.contiguous(), torch.full(text.T.shape, 1 / len(found)))
            x = torch.full((self.length,), self.mask)
            x[at] = torch.from_numpy(said.astype(np.int64))
            return x, answer, w

    def agree(self, at, said, most=800, looked=800000):
        """Where texts begin that have these tokens at these positions, at most so many."""
        if len(at) == 0:
            return self.rng.integers(0, self.last // SLOT, most) * SLOT
        count = self.bounds[said + 1] - self.bounds[said]
        rare = count.argmin()
        first = self.bounds[said[rare]] + self.rng.integers(0, max(1, count[rare] - looked))
        found = self.places[first:min(first + looked, self.bounds[said[rare] + 1])] - at[rare]
        found = found[(found >= 0) & (found < self.last) & (found % SLOT == 0)]
        for i in np.argsort(count):
            found = found[self.stream[found + at[i]] == said[i]]
        return self.rng.choice(found, most, replace=False) if len(found) > most else found

    def batch(self, exact=2, path=6, near=2, any_=5):
        """Masked texts, their tokens, the positions' weights, which add up to about 1, and the exact answers
        of the first texts, whose tokens are 0."""
        known = [self.exact() for _ in range(exact)]
        parts = [self.on_the_way(path), self.nearly_masked(near), self.anyhow(any_)]
        x, y, w = (torch.cat(p) for p in zip(*parts))
        w = w * self.weight[y]
        first = torch.zeros(exact, self.length, dtype=torch.long)
        w = torch.cat([torch.stack([k[2] for k in known]), w]) / (exact + len(x))
        return torch.cat([torch.stack([k[0] for k in known]), x]), torch.cat([first, y]), w, torch.stack([k[1] for k in known])
