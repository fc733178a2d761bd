"""Compares tokenizers with Hugging Face's library, on random files of all kinds and random texts.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tools/peers/tokens.py [--files 80] [--texts 1250] [--seed 1]

Each file is trained or put together here, written as the library writes it (or as older versions
did), and read by both. For each text the ids with special tokens found, the ids with them as
plain text, the ids after the post-processor and both decodings must be the same; only, text of which the
library's models make special tokens has other ids here (texts guarded). What is refused must be refused by name:
files that use what is not read, and texts that the library loses a part of.
Exits with 1 if anything differs.
"""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile

import needs

needs.need("tokenizers")
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL
LING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
          r"|\s*[\r\n]|\s+(?!\S)|\s+")
PROSE = ("The model's masks weren't filled: it'll take 12 steps, or 3456. To be, or not to be? "
         "naïve café 你好，世界。 привет мир ไทย नमस्ते \U0001f600 e\u0301 x = y+z*(a/b)%c;\n\n\tif (a) { b(); }\r\n")


def text_of(rng, added):
    """A random text: words, spaces, ends of words, marks, all of Unicode, and added tokens."""
    out = []
    for _ in range(rng.randrange(1, 14)):
        kind = rng.randrange(14)
        if kind < 4:
            out.append(rng.choice(PROSE.split(" ")))
        elif kind == 4:
            out.append("".join(rng.choice("  \n\r\t\u00a0\u3000\u0085\u2028\x0b\x1c") for _ in range(rng.randrange(1, 5))))
        elif kind == 5:
            out.append(rng.choice(["'s", "'T", "'Re", "'vE", "'m", "'LL", "'d", "'\u017f", "'", "\u2019s", "''ll"]))
        elif kind == 6:
            out.append("".join(rng.choice("0123456789\u0663\u00b2\u2167\U0001d7d8\U00010d40") for _ in range(rng.randrange(1, 6))))
        elif kind == 7:
            out.append("".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xa0, 0x250), rng.randrange(0x300, 0x370)]))
                               for _ in range(rng.randrange(1, 6))))
        elif kind == 8:
            for _ in range(rng.randrange(1, 4)):
                c = rng.choice([rng.randrange(0x110000), rng.randrange(0x20000), rng.randrange(0x3000)])
                out.append(chr(c) if not 0xD800 <= c < 0xE000 else "x")
        elif kind == 9:  # what normalisers compose, and reorder
            out.append(rng.choice(["\U00020041\u0301", "a\u0301\u0323", "\u1112\u1161\u11ab", "A\u030a", "\U00011099\U000110ba",
                                   "\ufb01", "\u212b", "\u0130I\u0307", "\u1e9e", "q\u0307\u0323", "\U00011935\U00011930",
                                   "e\u1abf\u0323", "o" + "\u0301\u0323" * 20, "\uac00\u11a8", "\uff21\u3392", "\u0958"]))
        elif kind < 13 and added:
            out.append(rng.choice(added))
        else:
            out.append(rng.choice([" ", "  ", "", "a", "_", "<0x41>", "\u2581", "Ġ", "\u2581the"]))
        if rng.random() < 0.4:
            out.append(" ")
    return "".join(out)


def normalizer(rng):
    one = [normalizers.NFC, normalizers.NFC, normalizers.NFKC, normalizers.NFD, normalizers.NFKD, normalizers.Lowercase,
           lambda: normalizers.Strip(rng.random() < 0.5, rng.random() < 0.5), lambda: normalizers.Prepend("_"),
           lambda: normalizers.Replace("e", rng.choice(["", "ee", "é"])), lambda: normalizers.Replace(Regex(r"\s+"), " ")]
    n = rng.choice([0, 0, 1, 1, 2, 3])
    made = [rng.choice(one)() for _ in range(n)]
    return None if n == 0 else made[0] if n == 1 and rng.random() < 0.7 else normalizers.Sequence(made)


def splits(rng):
    made = []
    for _ in range(rng.choice([1, 1, 1, 2])):
        pattern = rng.choice([GPT2, LLAMA3, QWEN, LING, CL100K, r"\p{N}{1,3}", r"\p{N}", r"\s+", r"\p{L}+"])
        behaviour = "isolated"
        if rng.random() < 0.25:
            behaviour = rng.choice(["isolated", "contiguous", "merged_with_previous", "merged_with_next", "removed"])
        pattern = Regex(pattern) if rng.random() < 0.9 else rng.choice([" ", "-", "th"])
        made.append(pre_tokenizers.Split(pattern, behaviour, invert=behaviour != "removed" and rng.random() < 0.1))
    if rng.random() < 0.2:
        made.insert(rng.randrange(len(made) + 1), pre_tokenizers.Digits(rng.random() < 0.5))
    return made


def byte_level(rng):
    level = lambda regex: pre_tokenizers.ByteLevel(add_prefix_space=rng.random() < 0.3, use_regex=regex)
    tok = Tokenizer(models.BPE())
    kind = rng.randrange(4)
    if kind == 0:
        tok.pre_tokenizer = level(rng.random() < 0.7)
    else:
        tok.pre_tokenizer = pre_tokenizers.Sequence(splits(rng) + [level(rng.random() < 0.15)])
    tok.decoder = decoders.ByteLevel()
    if rng.random() < 0.1:
        tok.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Fuse()])
    initial = pre_tokenizers.ByteLevel.alphabet()
    if rng.random() < 0.1:
        initial = sorted(initial)[:200]
    return tok, initial, []


def fallback(rng):
    """The kind of Llama 2: SentencePiece's BPE with bytes for what it does not know."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=rng.random() < 0.7, byte_fallback=rng.random() < 0.8))
    meta = rng.random()
    scheme = rng.choice(["always", "first", "never"])
    if meta < 0.5:
        tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                         decoders.Strip(" ", rng.choice([0, 1, 2]), 0)])
    else:
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=rng.random() < 0.6)
        tok.decoder = decoders.Metaspace(prepend_scheme=scheme)
        if meta < 0.75:
            tok.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme=scheme)])
    drop = rng.random() < 0.15
    return tok, [], ["<unk>"] + [f"<0x{b:02X}>" for b in range(256) if not drop or b % 7]


def plain(rng):
    tok = Tokenizer(models.BPE(unk_token=rng.choice(["<unk>", None]), fuse_unk=rng.random() < 0.5))
    tok.pre_tokenizer = rng.choice([pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit,
                                    lambda: pre_tokenizers.Sequence(splits(rng)), lambda: None])()
    return tok, [], ["<unk>"]


def word_piece(rng):
    """The kind of BERT's fast tokenizers."""
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=rng.choice([100, 6])))
    tok.normalizer = normalizers.BertNormalizer(clean_text=rng.random() < 0.8, handle_chinese_chars=rng.random() < 0.8,
                                                strip_accents=rng.choice([None, True, False]), lowercase=rng.random() < 0.6)
    tok.pre_tokenizer = rng.choice([pre_tokenizers.BertPreTokenizer, pre_tokenizers.BertPreTokenizer, lambda:
                                    pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(
                                        rng.choice(["isolated", "contiguous", "merged_with_next"]))])])()
    tok.decoder = decoders.WordPiece(cleanup=rng.random() < 0.7)
    return tok, [chr(c) for c in range(32, 127)], ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def unigram(rng):
    """The kind of ALBERT, T5 and XLM-R: SentencePiece's Unigram."""
    tok = Tokenizer(models.Unigram())
    tok.normalizer = rng.choice([
        lambda: normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(),
                                      normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")]),
        normalizers.NFKC, lambda: normalizers.Replace(Regex(" {2,}"), " ")])()
    scheme = rng.choice(["always", "first", "never"])
    meta = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=rng.random() < 0.7)
    tok.pre_tokenizer = meta if rng.random() < 0.5 else pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), meta])
    tok.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return tok, [chr(c) for c in range(32, 127)], ["<s>", "</s>", "<unk>", "<mask>"]


def refused(rng):
    """Kinds that are not read here."""
    tok, initial, special = byte_level(rng)
    kind = rng.randrange(3)
    if kind == 0:
        tok.normalizer = normalizers.Nmt()
    elif kind == 1:
        tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), pre_tokenizers.ByteLevel()])
    else:
        tok.pre_tokenizer = pre_tokenizers.Split(Regex(r"[a-z]+|."), "isolated")
    return tok, initial, special


def trainer(tok, size, initial, special):
    if isinstance(tok.model, models.WordPiece):
        return trainers.WordPieceTrainer(vocab_size=size, initial_alphabet=initial, special_tokens=special, show_progress=False)
    if isinstance(tok.model, models.Unigram):
        return trainers.UnigramTrainer(vocab_size=size + 1000, initial_alphabet=initial, special_tokens=special, unk_token="<unk>",
                                       show_progress=False)
    return trainers.BpeTrainer(vocab_size=size, initial_alphabet=initial, special_tokens=special, show_progress=False)


def make(rng):
    """A trained tokenizer with added tokens, its file's text, and the texts of its added tokens."""
    build = rng.choices([byte_level, fallback, plain, word_piece, unigram, refused], [10, 4, 3, 4, 4, 1])[0]
    tok, initial, special = build(rng)
    if tok.normalizer is None and build not in (fallback, unigram):
        tok.normalizer = normalizer(rng)
    corpus = [PROSE, PROSE * 2] + [text_of(random.Random(i), []) for i in range(60)]
    tok.train_from_iterator(corpus, trainer(tok, len(initial) + len(special) + rng.randrange(40, 400), initial, special))
    spellings = ["<|endoftext|>", "<|im_start|>", "[MASK]", "<s>", "</s>", "the", "é", "Ġab", "\u2581x", " y ", "<<", "<", "<|",
                 "Ab", "e\u0301", "\ufb01", "中文", "12"]
    picked = rng.sample(spellings, rng.randrange(0, 8))
    if "e\u0301" in picked and "é" in picked:  # one text once normalised: which one the library finds is chance
        picked.remove("é")
    for spelling in picked:
        tok.add_tokens([AddedToken(spelling, single_word=rng.random() < 0.2, lstrip=rng.random() < 0.2, rstrip=rng.random() < 0.2,
                                   normalized=rng.random() < 0.4, special=rng.random() < 0.5)])
    first = tok.token_to_id(picked[0]) if picked else None
    if first is not None and rng.random() < 0.5:
        bos = picked[0]
        tok.post_processor = rng.choice([
            lambda: processors.TemplateProcessing(f"{'$A'} $A".replace("$A $A", "$A") if ":" in bos or " " in bos else [bos, "$A", bos],
                                                  special_tokens=[(bos, first)]),
            lambda: processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing([bos, "$A"], special_tokens=[(bos, first)])]),
            lambda: processors.RobertaProcessing((bos, first), (bos, first))])()
    data = json.loads(tok.to_str())
    data["added_tokens"] = [a for a in data["added_tokens"] if not a["content"].startswith("<0x")]  # the model's own
    if data["model"]["type"] == "BPE":
        data["model"]["ignore_merges"] = rng.random() < 0.2
    if rng.random() < 0.3 and all(" " not in a + b for a, b in data["model"].get("merges", [("", " ")])):  # as versions before 0.20 wrote them
        data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
    if rng.random() < 0.2:
        rng.shuffle(data["added_tokens"])
    return json.dumps(data, ensure_ascii=rng.random() < 0.5), picked


class Ours:
    def __init__(self, program):
        self.p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, **request):
        self.p.stdin.write(json.dumps(request) + "\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())


def theirs(tok, text):
    tok.encode_special_tokens = True
    plain = tok.encode(text, add_special_tokens=False).ids
    tok.encode_special_tokens = False
    ids = tok.encode(text, add_special_tokens=False).ids
    return {"ids": [ids, plain, tok.encode(text).ids],
            "decoded": [tok.decode(ids, skip_special_tokens=False), tok.decode(plain, skip_special_tokens=False)]}


def guarded(got, want, special):
    """Whether the library's model makes special tokens of text in which ours makes none, or of plain text a token
    that it merges from one."""
    marks = lambda answer: collections.Counter(i for ids in answer["ids"] for i in ids if i in special)
    found = lambda answer: (answer["ids"][0], answer["ids"][2], answer["decoded"][0])
    return marks(got) < marks(want) or marks(want) and found(got) == found(want)


def write(args):
    cases = []
    for n in range(args.files):
        rng = random.Random(args.seed * 100003 + n)
        text, added = make(rng)
        tok = Tokenizer.from_str(text)
        samples = [text_of(rng, added) for _ in range(args.texts)]
        cases.append({"file": json.loads(text), "cases": [{"text": s} | theirs(tok, s) for s in samples]})
    with open(args.write, "w", encoding="utf-8") as f:
        json.dump(cases, f, separators=(",", ":"), ensure_ascii=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=80)
    parser.add_argument("--texts", type=int, default=1250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="folder for files that differ")
    parser.add_argument("--write", help="write what the library makes of files and texts, for tests, and stop")
    args = parser.parse_args()
    if args.write:
        return write(args)
    count = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "tokens")
        subprocess.run(["go", "build", "-o", program, "./tools/peers/tokens"], cwd=os.path.join(HERE, "..", ".."), check=True)
        ours = Ours(program)
        for n in range(args.files):
            rng = random.Random(args.seed * 100003 + n)
            text, added = make(rng)
            path = os.path.join(folder, "tokenizer.json")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            tok = Tokenizer.from_str(text)
            tok.no_truncation(), tok.no_padding()
            reply = ours.ask(File=path)
            if "refused" in reply:
                count["files refused"] += 1
                print(f"file {n}: {reply['refused']}")
                continue
            count["files read"] += 1
            special = {id for id, t in tok.get_added_tokens_decoder().items() if t.special and t.content != "<unk>"}
            bad = 0
            for _ in range(args.texts):
                sample = text_of(rng, added)
                want, got = theirs(tok, sample), ours.ask(Text=sample)
                if "refused" in got:
                    count["texts refused"] += 1
                    if "is not in the vocabulary" in got["refused"]:
                        continue
                else:
                    got["ids"] = [x or [] for x in got["ids"]]
                    if got == want:
                        count["texts equal"] += 1
                        continue
                    if guarded(got, want, special):
                        count["texts guarded"] += 1
                        continue
                count["texts different"] += 1
                bad += 1
                if bad <= 2:
                    print(f"file {n}: {sample!r}\n  theirs {want}\n  ours   {got}")
            if bad and args.keep:
                with open(os.path.join(args.keep, f"{args.seed}-{n}.json"), "w", encoding="utf-8") as f:
                    f.write(text)
    print(", ".join(f"{v} {k}" for k, v in sorted(count.items())))
    sys.exit(1 if count["texts different"] else 0)


main()
