"""Compares CLIP's tokenizer with Hugging Face's library on random strings.

    python3 tools/peers/clip.py FOLDER [COUNT]

FOLDER has vocab.json and merges.txt. Needs the tokenizers package and Go. Strings mix words, digits,
punctuation, white space of all kinds, letters of many scripts, marks and emoji.
"""
import json, random, subprocess, sys
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers


def peer(folder):
    vocab = json.load(open(f"{folder}/vocab.json"))
    lines = open(f"{folder}/merges.txt", encoding="utf-8").read().split("\n")
    merges = [tuple(line.split(" ")) for line in lines[1:] if line]
    t = Tokenizer(models.BPE(vocab, merges, end_of_word_suffix="</w>", continuing_subword_prefix="", unk_token="<|endoftext|>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "removed", invert=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    start, end = vocab["<|startoftext|>"], vocab["<|endoftext|>"]

    def ids(text):
        found = [start, *t.encode(text).ids[:75], end]
        return found + [end] * (77 - len(found))
    return ids


def strings(count, seed=1):
    r = random.Random(seed)
    words = "a photo of the cat they'll isn't I'D we're Sun SHINING thing naïve café ǅ İstanbul ΑΣ σας Straße №42 ½ ² ٣".split()
    spaces = [" ", "  ", "\t", "\n", "\u00a0", "\u2003", "\u3000", "\x0b", "\x1c", "\x85", "\u200b"]
    ranges = [(33, 126), (160, 0x24f), (0x300, 0x36f), (0x370, 0x5ff), (0x900, 0xdff), (0x1100, 0x11ff), (0x2000, 0x2bff),
              (0x3040, 0x30ff), (0x4e00, 0x4fff), (0xac00, 0xacff), (0xfb00, 0xfdff), (0x1f300, 0x1f6ff)]
    for _ in range(count):
        parts = []
        for _ in range(r.randint(0, 12)):
            k = r.random()
            if k < 0.45:
                parts.append(r.choice(words))
            elif k < 0.7:
                parts.append("".join(chr(r.randint(*r.choice(ranges))) for _ in range(r.randint(1, 4))))
            else:
                parts.append(r.choice(spaces))
            if r.random() < 0.5:
                parts.append(" ")
        yield "".join(parts)


def main():
    folder, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    texts = list(strings(count))
    done = subprocess.run(["go", "run", "./tools/peers/clip", folder], input="".join(json.dumps(t) + "\n" for t in texts), text=True,
                          capture_output=True, check=True)
    ours, theirs, differ = [json.loads(line) for line in done.stdout.splitlines()], peer(folder), 0
    for text, ids in zip(texts, ours, strict=True):
        want = theirs(text)
        if ids != want:
            differ += 1
            if differ <= 10:
                print(ascii(text), ids, want, sep="\n")
    print(f"{count} strings, {differ} differ")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
