"""The authors' loops over a network, for one sequence at temperature 0, in plain PyTorch.

net(tokens) -> logits [positions, vocabulary] for a list of ids; the mask is never predicted, which
unmask does on purpose (the originals allow it, and then a position stays masked). Where a rule is
somebody's program, its file and function stand beside it. Ties go to the lowest position.
"""
import math

import torch


def best(net, tokens, among, mask, top_p=1.0, score="p"):
    """The most probable token of each position in among, and the positions' scores."""
    logits = net(tokens).clone()
    logits[:, mask] = -torch.inf
    if top_p < 1:
        order = logits.sort(-1, descending=True)
        past = order.values.softmax(-1).cumsum(-1) > top_p
        past = past.roll(1, -1)
        past[:, 0] = False
        logits[torch.zeros_like(past).scatter(-1, order.indices, past)] = -torch.inf
    p = logits.softmax(-1)
    token = p.argmax(-1)
    if score == "margin":
        value = p.topk(2).values @ torch.tensor([1.0, -1.0])
    elif score == "entropy":
        value = (p * torch.log(p + 1e-10)).sum(-1)
    else:
        value = p.max(-1).values
    return {i: (value[i].item(), token[i].item()) for i in among}


def open_best(tokens, found, k):
    """Opens the k positions with the highest scores."""
    for i in sorted(found, key=lambda i: (-found[i][0], i))[:k]:
        tokens[i] = found[i][1]


def llada_quota(masked, steps):
    """LLaDA's get_num_transfer_tokens (ML-GSAI/LLaDA, generate.py)."""
    return [masked // steps + (i < masked % steps) for i in range(steps)]


def dllm_quota(masked, steps):
    """dLLM's get_num_transfer_tokens with LinearAlphaScheduler (ZHZisZZ/dllm,
    core/samplers/utils.py lines 6-63): steps that open nothing are left out."""
    f32, out = (lambda x: torch.tensor(x, dtype=torch.float32)), []
    for left in range(steps, 0, -1):
        kept = (1 - (1 - f32((left - 1) / steps))) / (1 - (1 - f32(left / steps)))
        n = min(round(masked * (1 - kept.item())), masked)  # halves to even, as torch.round
        masked -= n
        if n:
            out.append(n)
    return out


def semi_ar(net, prompt, new, block, steps, mask, quota):
    """LLaDA's generate (generate.py) and dLLM's MDLMSampler.sample (core/samplers/mdlm.py lines
    31-228): blocks from the prompt's end on, the last may be short."""
    tokens = prompt + [mask] * new
    each = math.ceil(steps / math.ceil(new / block))
    for lo in range(len(prompt), len(tokens), block):
        within = range(lo, min(lo + block, len(tokens)))
        for k in quota(len(within), each):
            among = [i for i in within if tokens[i] == mask]
            if k and among:
                open_best(tokens, best(net, tokens, among, mask), k)
    return tokens


def dllm_infill(net, tokens, block, steps, mask):
    """dLLM's MDLMSampler.infill (core/samplers/mdlm.py lines 230-436): blocks from position 0 on."""
    tokens, each = list(tokens), math.ceil(steps / math.ceil(len(tokens) / block))
    for lo in range(0, len(tokens), block):
        within = range(lo, min(lo + block, len(tokens)))
        for k in dllm_quota(sum(tokens[i] == mask for i in within), each):
            among = [i for i in within if tokens[i] == mask]
            open_best(tokens, best(net, tokens, among, mask), k)
    return tokens


def bd3lm(net, prompt, new, block, steps, mask, ends):
    """dLLM's BD3LMSampler.sample (core/samplers/bd3lm.py lines 139-420): the prompt is padded on
    the left to whole blocks, and pads are seen by nobody, so that blocks are counted from the
    answer on. net takes the number of positions that are missing in the first block."""
    tokens, each = list(prompt), math.ceil(steps / math.ceil(new / block))
    missing = -len(prompt) % block
    while len(tokens) < len(prompt) + new and not set(tokens[len(prompt):]) & set(ends):
        lo = len(tokens)
        tokens += [mask] * min(block, len(prompt) + new - lo)
        for k in dllm_quota(len(tokens) - lo, each):
            among = [i for i in range(lo, len(tokens)) if tokens[i] == mask]
            open_best(tokens, best(lambda t: net(t, missing), tokens, among, mask), k)
    return tokens


def sdar(net, prompt, new, block, steps, mask, ends, threshold=None):
    """SDAR's block_diffusion_generate (JetAstra/SDAR, generate.py) with remasking low_confidence_
    static or, with a threshold, low_confidence_dynamic: blocks from position 0 on, all of them
    whole. LLaDA2's generate (inclusionAI, modeling_llada2_moe.py) is the same."""
    whole = math.ceil((len(prompt) + new) / block) * block
    tokens, plan = prompt + [mask] * (whole - len(prompt)), llada_quota(block, steps)
    for lo in range(len(prompt) // block * block, whole, block):
        for k in plan:
            among = [i for i in range(lo, lo + block) if tokens[i] == mask]
            if not among:
                break
            found = best(lambda t: net(t[:lo + block], 0), tokens, among, mask)
            sure = sum(p > threshold for p, _ in found.values()) if threshold else 0
            open_best(tokens, found, max(k, sure))
        if set(tokens[len(prompt):lo + block]) & set(ends):
            break
    return [t for t in tokens[:len(prompt) + new]]


def dream(net, prompt, new, steps, mask, score, top_p=1.0):
    """Dream's _sample (Dream-org/Dream-v0-Instruct-7B, generation_utils.py) with alg maskgit_plus
    (p), topk_margin or entropy: the whole answer at once, many steps open nothing."""
    tokens, times = prompt + [mask] * new, torch.linspace(1, 1e-3, steps + 1)
    for i in range(steps):
        among = [j for j, t in enumerate(tokens) if t == mask]
        masked = torch.tensor(float(len(among)))
        k = int(masked * (1 - times[i + 1] / times[i])) if i < steps - 1 else len(among)
        if k:
            open_best(tokens, best(net, tokens, among, mask, top_p, score), k)
    return tokens


def one_by_one(net, tokens, mask):
    """The surest masked position first, one a pass: what an encoder's users do by hand."""
    tokens = list(tokens)
    while mask in tokens:
        among = [i for i, t in enumerate(tokens) if t == mask]
        open_best(tokens, best(net, tokens, among, mask), 1)
    return tokens


def left_to_right(net, prompt, answer, after, mask):
    """log p of an answer by the chain rule in the order of the text, all that follows masked."""
    total = 0.0
    for i, token in enumerate(answer):
        row = net(prompt + answer[:i] + [mask] * (len(answer) - i) + after)[len(prompt) + i].clone()
        row[mask] = -torch.inf
        total += row.log_softmax(-1)[token].item()
    return total


def encode_pair(tokenizer, prompt, answer):
    """_encode_pair of the harnesses of LLaDA, Dream and dLLM (dllm/core/eval/mdlm.py lines
    100-115): blanks at the prompt's end belong to the answer."""
    blanks = len(prompt) - len(prompt.rstrip())
    if blanks:
        prompt, answer = prompt[:-blanks], prompt[-blanks:] + answer
    known = tokenizer(prompt)["input_ids"]
    return known, tokenizer(prompt + answer)["input_ids"][len(known):]
