"""Makes cases.json and bytes.json with Hugging Face's own library (pip install tokenizers==0.23.3).

    python3 make.py R50K

R50K has GPT-2's 50256 merged tokens in the order of ids, one a line in base64 (as OpenAI's
r50k_base.tiktoken). demo.json is the tokenizer of the demo text model. bytes.json is trained here:
all 256 bytes, 60 merges, a mask.
"""
import base64, json, random, sys
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = [
    "", " ", "  ", "\n", " \n ", "\t\t", "a", " a", "a ", "a  b", "a   b", "a\n\n\nb", "\r\n \r\nx",
    "ROMEO:\nBut soft! what light through yonder window breaks?\n",
    "It's we've I'm they'd you'll don't 'tis 'S 'T IT'S it''s",
    "one1two22 333 4,5;6--7...8?!", "x=y+z*(a/b)%c", "<|endoftext|>", "a<|endoftext|>b<|endoftext|><|endo",
    "[MASK]", "to be [MASK] not [MASK][MASK]", "[[MASK]]", "\u25af",
    "\u00e9t\u00e9 na\u00efve \u20ac3.50", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301", "\u0e44\u0e17\u0e22 \u0928\u092e\u0938\u094d\u0924\u0947",
    "x\u00a0y\u2003z\u3000w\u2028v\u1680u", "a\u0085b\u200bc\u180ed\ufeffe", "a\x1cb\x1dc\x1ed\x1fe", "\x0b\x0c\x0b a",
    "\u00b2\u00bd\u2167\u0663\U0001d7d8 \u2460", "\x00\x01\x7f", "a\u0000b", "\ufffd", "\U0010ffff\ue000",
    "s" * 50, "ab" * 70, " " * 90 + "x", "\n" * 40, "the " * 30, "!" * 33, "\u00e9" * 40,
    "\u01c5\u02b0\u00aa \u1e9e\ua7ae\U00010400", "_a_b", "snake_case CamelCase", "a'b 'll'll",
]


def alphabet():
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in keep]
    return {b: chr(b) for b in keep} | {b: chr(256 + i) for i, b in enumerate(rest)}


def gpt2(path):
    raw = [base64.b64decode(line.split()[0]) for line in open(path)]
    rank = {t: i for i, t in enumerate(raw)}
    show = lambda t: "".join(ALPHABET[b] for b in t)
    merges = []
    for i, t in enumerate(raw):
        parts = [t[j:j + 1] for j in range(len(t))]
        while len(parts) > 2:  # the merges before this one leave two parts
            _, j = min((rank.get(parts[j] + parts[j + 1], 1 << 30), j) for j in range(len(parts) - 1))
            parts[j:j + 2] = [parts[j] + parts[j + 1]]
        if len(parts) == 2:
            merges.append((show(parts[0]), show(parts[1])))
    tok = Tokenizer(models.BPE({show(t): i for i, t in enumerate(raw)}, merges))
    return finish(tok, "<|endoftext|>")


def small():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.train_from_iterator([t for t in TEXTS for _ in range(3)], trainers.BpeTrainer(
        vocab_size=316, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return finish(tok, "[MASK]")


def finish(tok, special):
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(special, normalized=False)])
    return tok


ALPHABET = alphabet()
tokenizers = {"gpt2": gpt2(sys.argv[1]), "bytes": small(), "demo": Tokenizer.from_file("demo.json")}
tokenizers["bytes"].save("bytes.json", pretty=False)
cases = {}
for name, tok in tokenizers.items():
    rng = random.Random(7)
    encode, decode = [], []
    for text in TEXTS:
        case = {"text": text}
        for key, plain in ("ids", True), ("special", False):
            tok.encode_special_tokens = plain
            ids = tok.encode(text, add_special_tokens=False).ids
            # demo.json lacks most bytes: the library drops them, unmask refuses the text.
            case[key] = ids if tok.decode(ids, skip_special_tokens=False) == text else None
        encode.append(case)
    for _ in range(40):
        ids = [rng.randrange(256 if rng.random() < 0.5 else tok.get_vocab_size()) for _ in range(12)]
        decode.append({"ids": ids, "text": tok.decode(ids, skip_special_tokens=False)})
    cases[name] = {"size": tok.get_vocab_size(), "encode": encode, "decode": decode}
json.dump(cases, open("cases.json", "w"), indent=None, separators=(",", ":"))
