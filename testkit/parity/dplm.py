"""Writes samplers/testdata/dplm.json: steps of DPLM's sampler, computed with PyTorch from its description
(Wang et al. 2024, section 3.2 and appendix), apart from the Go code.

    python3 dplm.py OUT.json
"""
import json, sys
import torch


def draw(logits, uniform):
    """The token and the score at each position; logits and uniform [positions, vocabulary]."""
    noised = logits - torch.log(-torch.log(uniform))
    return noised.argmax(-1), noised.log_softmax(-1).max(-1).values


def nucleus(logits, top_p):
    """The logits of the most probable tokens that have top_p together, -inf elsewhere."""
    p, order = logits.softmax(-1).sort(dim=-1, descending=True, stable=True)
    late = p.cumsum(-1) - p > top_p
    return logits.masked_fill(torch.zeros_like(late).scatter(-1, order, late), -torch.inf)


def step(tokens, mask, passes, uniforms, t, steps, share=0.25, top_p=0.95):
    """The tokens after step t, and those of its second pass (None without one). passes are the logits of the two
    passes, [positions, vocabulary] each, and uniforms their noise."""
    new, scores = draw(passes[0], uniforms[0])
    counts = (new[:, None] == new[None]).sum(-1)
    again, second = counts > share * len(new), None
    if again.any():
        second = torch.where(again, torch.full_like(new, mask), new)
        other, others = draw(nucleus(passes[1], top_p), uniforms[1])
        new, scores = torch.where(again, other, new), torch.where(again, others, scores)
    k = int(len(new) * (1 - t / steps))
    masked = torch.zeros(len(new), dtype=torch.bool)
    masked[scores.argsort(dim=-1, stable=True)[:k]] = True
    out = torch.where(tokens == mask, new, tokens)
    return torch.where(masked, torch.full_like(out, mask), out), second


if __name__ == "__main__":
    g, cases = torch.Generator().manual_seed(7), []
    for t, steps, sharp in [(1, 10, 1.0), (5, 10, 1.0), (10, 10, 1.0), (3, 4, 2.0), (2, 7, 0.2)]:
        n, vocabulary, mask = 12, 7, 6
        logits = torch.randn(2, n, vocabulary, generator=g, dtype=torch.float64) * sharp
        logits[0, :, 2] += 3 * (sharp > 1)  # one token is frequent, and is drawn again
        logits = logits.float().double()
        logits[..., mask] = -torch.inf
        uniform = torch.rand(2, n, vocabulary, generator=g, dtype=torch.float64).clamp(1e-9, 1 - 1e-9)
        tokens = torch.randint(0, mask, (n,), generator=g)
        tokens[torch.rand(n, generator=g) < 0.5] = mask
        after, second = step(tokens, mask, logits, uniform, t, steps)
        cases.append({"step": t, "steps": steps, "mask": mask, "tokens": tokens.tolist(),
                      "logits": logits[..., :mask].tolist(), "uniform": uniform[..., :mask].tolist(),
                      "second": [] if second is None else second.tolist(), "after": after.tolist()})
    with open(sys.argv[1], "w") as f:
        json.dump(cases, f)
        f.write("\n")
