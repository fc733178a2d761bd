"""From text to text as the original programs: UNMASK=./unmask python3 originals.py [FAMILY ...]

Saves, for each family, a folder by the classes of transformers with random weights and a small
tokenizer, gives texts to unmask and to the authors' loops (rules.py) over those classes, and prints
by family and mode how many token ids, texts and log-likelihoods are equal. The exit status is 1 if
any differs. Packages: requirements.txt; without them, --install makes an environment with them in
FOLDER first. --keep FOLDER keeps the saved models.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.append(sys.path.pop(0))  # this folder last: tokenizers.py in it is not the package

HERE = os.path.dirname(os.path.abspath(__file__))
UNMASK = os.environ.get("UNMASK", "unmask")
PROMPTS = ["the cat sat on", "Once upon a time ", "is 7 * 8", "a", "who is there? it is I, said the old"]
ANSWERS = [" the mat", "there was a girl", " = 56?", " quick fox", " mouse"]


def unmask(folder, command, lines, *flags):
    """The JSON lines that a command of unmask prints for a list of requests."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.write("".join(json.dumps(line) + "\n" for line in lines))
        f.flush()
        given = {"text": ["--prompts", f.name, "-n", str(len(lines))], "score": ["--inputs", f.name]}
        ran = subprocess.run([UNMASK, command, "--model", folder, "--json", "--threads", "1",
                              "--device", "cpu", *given[command], *flags],
                             capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"{command} {' '.join(flags)} of {folder}: {ran.stderr.strip()}")
    made = [json.loads(line) for line in ran.stdout.splitlines()]
    return sorted(made, key=lambda one: one.get("id", 0))


class Table:
    """What is equal and what differs, by family and mode."""

    def __init__(self):
        self.rows, self.first = {}, {}

    def add(self, family, mode, same, what=""):
        row = self.rows.setdefault((family, mode), [0, 0])
        row[not same] += 1
        if not same:
            self.first.setdefault((family, mode), what)

    def show(self):
        for (family, mode), (same, differ) in self.rows.items():
            print(f"{family:12} {mode:28} {same:4} equal {differ:4} different")
            if differ:
                print("   first:", self.first[family, mode])
        print(sum(r[0] for r in self.rows.values()), "equal,",
              sum(r[1] for r in self.rows.values()), "different")
        return any(r[1] for r in self.rows.values())


def until(tokens, start, ends):
    """tokens up to the first end at or after start, which is kept."""
    for i in range(start, len(tokens)):
        if tokens[i] in ends:
            return tokens[:i + 1]
    return tokens


def encoder(table, root, name):
    import folders
    import rules
    folder = f"{root}/{name}"
    tokenizer, net = folders.encoder(name, folder)
    mask = tokenizer.mask_token_id
    banned = [i for i in tokenizer.all_special_ids if i != mask]
    if name == "esm":  # what may not be drawn in a protein: all but the twenty residues
        banned += [i for i, t in enumerate(tokenizer.get_vocab()) if t not in
                   "LAGVSERTIDPKQNFYMHWC"]
    texts = (["MKTV[1]LLAG", "[3]WERT", "GA[2]VLS[2]K"] if name == "esm" else
             ["the cat[1] on the mat", "a quick brown[3]", "come in[2]said the[1]"])

    def drawn(tokens):
        logits = net(tokens).clone()
        logits[:, [i for i in banned if i != mask]] = -math.inf
        return logits

    got = unmask(folder, "text", [{"infill": t} for t in texts], "--sampler",
                 "greedy(confidence)", "--cache", "0")
    for text, g in zip(texts, got):
        tokens, rest = [], text
        while "[" in rest:
            piece, rest = rest.split("[", 1)
            n, rest = rest.split("]", 1)
            tokens += tokenizer(piece, add_special_tokens=False)["input_ids"] + [mask] * int(n)
        tokens += tokenizer(rest, add_special_tokens=False)["input_ids"]
        tokens = [tokenizer.cls_token_id, *tokens,
                  tokenizer.eos_token_id if name == "esm" else tokenizer.sep_token_id]
        want = rules.one_by_one(drawn, tokens, mask)
        table.add(name, "infill, surest first", g["ids"] == want, (text, want, g["ids"]))
    if name != "esm":
        pairs = list(zip(PROMPTS[:3], ANSWERS))
        scores(table, name, folder, tokenizer, net, pairs, mask)


def scores(table, name, folder, tokenizer, net, pairs, mask):
    import rules
    got = unmask(folder, "score", [{"prompt": p, "answer": a} for p, a in pairs], "--method",
                 "left-to-right")
    for (prompt, answer), g in zip(pairs, got):
        known, ids = rules.encode_pair(tokenizer, prompt, answer)
        after = []
        if known and known[-1] == tokenizer.sep_token_id and tokenizer.sep_token:
            known, after = known[:-1], [tokenizer.sep_token_id]  # around the pair, not in it
            ids = tokenizer(prompt.rstrip() + (prompt[len(prompt.rstrip()):] + answer))[
                "input_ids"][len(known):-1]
        want = rules.left_to_right(net, known, ids, after, mask)
        have = g["answers"][0]["log_prob"]
        table.add(name, "log-likelihood", abs(have - want) < 1e-3 * max(1, abs(want)),
                  (prompt, answer, want, g))


def text_modes(name):
    """(mode, new tokens, steps, flags, rule) of a family's raw prompts."""
    import rules as r
    if name == "dream":
        for score, order in (("p", "confidence"), ("margin", "margin"), ("entropy", "entropy")):
            flags = ["--sampler", f"greedy({order})", "--schedule", "dream", "--temperature", "0",
                     "--top-p", "1"]
            for new, steps in ((12, 12), (16, 24)):
                yield (order, new, steps, flags,
                       lambda net, p, n, s, m, e, score=score: r.dream(net, p, n, s, m, score))
    elif name == "qwen3-bd3lm":
        for new, steps in ((16, 16), (20, 12), (24, 9)):
            each = math.ceil(steps / math.ceil(new / 8))
            yield ("blocks from the answer on", new, steps,
                   ["--sampler", "low-confidence", "--schedule", "dllm", "--steps", str(each)],
                   lambda net, p, n, s, m, e: r.bd3lm(net, p, n, 8, s, m, e))
    elif name == "sdar":
        for new in (12, 13, 14):
            for steps in (4, 2):
                yield ("static", new, steps, ["--sampler", "low-confidence", "--schedule", "llada"],
                       lambda net, p, n, s, m, e: r.sdar(net, p, n, 4, s, m, e))
                yield ("dynamic", new, steps, ["--sampler", "dynamic(theta=0.3)", "--schedule",
                                               "llada"],
                       lambda net, p, n, s, m, e: r.sdar(net, p, n, 4, s, m, e, 0.3))
    else:
        rule, quota = ("llada", r.llada_quota) if "llada" in name else ("dllm", r.dllm_quota)
        plans = [(16, 16), (16, 4)] + ([] if rule == "llada" else [(12, 12), (20, 7), (19, 24)])
        for new, steps in plans:
            yield ("blocks of 8", new, steps, ["--sampler", "semi-ar(low-confidence, block=8)",
                                               "--schedule", rule],
                   lambda net, p, n, s, m, e: r.semi_ar(net, p, n, 8, s, m, quota))


def language_model(table, root, name):
    import folders
    import rules
    folder = f"{root}/{name}"
    tokenizer, net = folders.language_model(name, folder)
    mask, ends = tokenizer.mask_token_id, [tokenizer.eos_token_id]
    for mode, new, steps, flags, rule in text_modes(name):
        flags = flags if "--steps" in flags else [*flags, "--steps", str(steps)]
        got = unmask(folder, "text", [{"prompt": p, "max_tokens": new} for p in PROMPTS], *flags)
        for p, g in zip(PROMPTS, got):
            known = tokenizer(p)["input_ids"]
            want = until(rule(net, known, new, steps, mask, ends), len(known), ends)
            have = until(g["ids"], len(known), ends)
            table.add(name, mode, have == want, (p, new, steps, want, have))
    chats(table, name, folder, tokenizer, net, mask)
    if name.endswith("mdlm"):
        infills(table, name, folder, tokenizer, net, mask)
    if name not in ("qwen3-bd3lm", "sdar"):
        scores(table, name, folder, tokenizer, net, list(zip(PROMPTS, ANSWERS)), mask)


def chats(table, name, folder, tokenizer, net, mask):
    """Conversations, with the published run's own steps where its temperature is 0."""
    import rules as r
    ends, new = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|im_end|>")], 20
    think = {"enable_thinking": False} if name.startswith("qwen") else {}
    flags = {"dream": ["--sampler", "greedy(entropy)", "--schedule", "dream", "--steps", "20",
                       "--temperature", "0", "--top-p", "1"],
             "sdar": ["--sampler", "dynamic(theta=0.85)"]}.get(name, [])
    asked = ["who is there?", "is 7 * 8 = 56?"]
    got = unmask(folder, "text", [{"messages": [{"role": "user", "content": a}],
                                   "max_tokens": new} for a in asked], *flags)
    for a, g in zip(asked, got):
        known = tokenizer.apply_chat_template([{"role": "user", "content": a}], tokenize=True,
                                              add_generation_prompt=True, return_dict=False, **think)
        if name == "dream":
            want = r.dream(net, known, new, 20, mask, "entropy")
        elif name == "sdar":
            want = r.sdar(net, known, new, 4, 4, mask, ends, 0.85)
        elif name == "qwen3-bd3lm":
            want = r.bd3lm(net, known, new, 8, 128, mask, ends)
        else:
            quota = r.llada_quota if name.startswith("llada") else r.dllm_quota
            want = r.semi_ar(net, known, new, 32, 128, mask, quota)
        want = until(want, len(known), ends)
        table.add(name, "chat, ids", until(g["ids"], len(known), ends) == want, (a, want, g["ids"]))
        text = tokenizer.decode(want[len(known):], skip_special_tokens=True)
        table.add(name, "chat, text", g["text"].endswith(text), (a, text, g["text"]))


def infills(table, name, folder, tokenizer, net, mask):
    import rules as r
    parts = [("the cat", 9, " on the mat and the dog"), ("", 5, " seven wizards"),
             ("who is there? it is I, said the", 12, "come in!")]
    flags = ["--sampler", "semi-ar(low-confidence, block=8)", "--schedule", "dllm"]
    for steps in (5, 9):
        got = unmask(folder, "text", [{"infill": f"{a}[{n}]{b}"} for a, n, b in parts if n >= steps],
                     *flags, "--steps", str(steps))
        for (a, n, b), g in zip([p for p in parts if p[1] >= steps], got):
            ids = [tokenizer(t)["input_ids"] if t else [] for t in (a, b)]
            want = r.dllm_infill(net, ids[0] + [mask] * n + ids[1], 8, steps, mask)
            table.add(name, "infill, blocks of 8", g["ids"] == want, (a, n, b, want, g["ids"]))


def spoken(table):
    """The names of OmniVoice's languages in the file that unmask is built with."""
    import languages
    with open(f"{HERE}/../../families/omnivoice/languages.txt", encoding="utf-8") as f:
        have = f.read().splitlines()
    want = languages.lines()
    for i in range(max(len(want), len(have))):
        table.add("omnivoice", "languages by name", want[i:i + 1] == have[i:i + 1],
                  (want[i:i + 1], have[i:i + 1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("families", nargs="*")
    parser.add_argument("--install", metavar="FOLDER")
    parser.add_argument("--keep", metavar="FOLDER")
    a = parser.parse_args()
    if a.install and not os.environ.get("ORIGINALS_INSTALLED"):
        python = f"{a.install}/bin/python"
        if not os.path.exists(python):
            subprocess.run([sys.executable, "-m", "venv", a.install], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", f"{HERE}/requirements.txt"],
                       check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "omnivoice==0.2.1"],
                       check=True)
        os.environ["ORIGINALS_INSTALLED"] = "1"
        os.execv(python, [python, *sys.argv])
    import torch
    import folders
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    known = [*folders.ENCODERS, *folders.TRUNKS, "omnivoice"]
    if wrong := set(a.families) - set(known):
        raise SystemExit(f"family is {', '.join(sorted(wrong))}, want {', '.join(known)}")
    chosen, table = a.families or known, Table()
    with tempfile.TemporaryDirectory() as root:
        root = a.keep or root
        for name in chosen:
            if name == "omnivoice":
                spoken(table)
                continue
            try:
                (encoder if name in folders.ENCODERS else language_model)(table, root, name)
            except RuntimeError as e:
                table.add(name, "runs", False, e)
    sys.exit(table.show())


if __name__ == "__main__":
    main()
