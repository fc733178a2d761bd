"""Writes samplers/testdata/dplm.json: steps of DPLM's sampler, computed with PyTorch from its description
(Wang et al. 2024, section 3.2 and appendix), apart from the Go code.

    python3 dplm.py OUT.json
"""
import json, sys
import torch


def step(tokens, mask, logits, uniform, again, t, steps, share=0.25, top_p=0.95):
    """The tokens after step t; logits and uniform [positions, vocabulary], again [positions]."""
    noised = logits + -torch.log(-torch.log(uniform))
    new, scores = noised.argmax(-1), noised.log_softmax(-1).max(-1).values
    token, count = max(((int(c), int((new == c).sum())) for c in new.unique()), key=lambda x: (x[1], -x[0]))
    if count > share * len(new):
        p, order = logits.softmax(-1).sort(dim=-1, descending=True, stable=True)
        kept = torch.where(p.cumsum(-1) - p < top_p, p, torch.zeros_like(p))
        cumulative = (kept / kept.sum(-1, keepdim=True)).cumsum(-1)
        place = (cumulative <= again[:, None]).sum(-1)
        drawn = order.gather(-1, place[:, None])[:, 0]
        new = torch.where(new == token, drawn, new)
    k = int(len(new) * (1 - t / steps))
    masked = torch.zeros(len(new), dtype=torch.bool)
    masked[scores.argsort(dim=-1, stable=True)[:k]] = True
    out = torch.where(tokens == mask, new, tokens)
    return torch.where(masked, torch.full_like(out, mask), out)


if __name__ == "__main__":
    g, cases = torch.Generator().manual_seed(7), []
    for t, steps, sharp in [(1, 10, 1.0), (5, 10, 1.0), (10, 10, 1.0), (3, 4, 2.0), (2, 7, 0.2)]:
        n, vocabulary, mask = 12, 7, 6
        logits = (torch.randn(n, vocabulary, generator=g, dtype=torch.float64) * sharp).float().double()
        logits[:, 2] += 3 * (sharp > 1)  # one token is frequent, and is drawn again
        logits = logits.float().double()
        logits[:, mask] = -torch.inf
        uniform = torch.rand(n, vocabulary, generator=g, dtype=torch.float64).clamp(1e-9, 1 - 1e-9)
        again = torch.rand(n, generator=g, dtype=torch.float64)
        tokens = torch.randint(0, mask, (n,), generator=g)
        tokens[torch.rand(n, generator=g) < 0.5] = mask
        after = step(tokens, mask, logits, uniform, again, t, steps)
        cases.append({"step": t, "steps": steps, "mask": mask, "tokens": tokens.tolist(),
                      "logits": [row[:mask] for row in logits.tolist()], "uniform": uniform[:, :mask].tolist(),
                      "again": again.tolist(), "after": after.tolist()})
    with open(sys.argv[1], "w") as f:
        json.dump(cases, f)
        f.write("\n")
