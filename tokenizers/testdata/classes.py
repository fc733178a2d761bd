"""Writes ../classes.txt: the letters, numbers and word characters that Hugging Face's
tokenizers 0.23.3 knows (Unicode 16), what it lower-cases, and what its normalisers drop, set apart or
leave alone.

    python3 classes.py > ../classes.txt

Every table is asked of the library, one code point at a time; UNICODE 15 is what golang.org/x/text
and Go's own tables hold, so only differences are written for case and normalisation.
"""
import subprocess, sys, unicodedata
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ALL = "".join(map(chr, POINTS))


def kept(pattern):
    cut = pre_tokenizers.Split(Regex("[^" + pattern + "]"), "removed")
    return {ord(c) for s, _ in cut.pre_tokenize_str(ALL) for c in s}


def words():
    tok = Tokenizer(models.BPE({"@@": 0}, []))
    tok.add_tokens([AddedToken("@@", single_word=True, normalized=False)])
    return {c for c in POINTS if 0 not in tok.encode(chr(c) + "@@").ids}


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(name, pairs):
    print(name, *(f"{lo:x}" if lo == hi else f"{lo:x}-{hi:x}" for lo, hi in pairs))


letters, numbers, word = kept(r"\p{L}"), kept(r"\p{N}"), words()
assert letters <= word
lower = normalizers.Lowercase()
digits = pre_tokenizers.Digits(individual_digits=True)
numeric = {c for c in POINTS if len(digits.pre_tokenize_str("aa" + chr(c))) == 2}
assert numbers <= numeric
nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
# Marks that do not move before U+0334 (class 1), and what does not decompose, though Unicode 15
# has it do so: unicodedata of this Python is 14, so 15's few are named.
assert unicodedata.unidata_version == "14.0.0"
since14 = {0x0CF3, 0x10EFD, 0x10EFE, 0x10EFF, 0x11F41, 0x11F42, 0x1E08F, 0x1E4EC, 0x1E4ED, 0x1E4EE, 0x1E4EF} | set(
    range(0x1E030, 0x1E06E))
inert = {0x11930}
for c in POINTS:
    s = chr(c)
    if nfd.normalize_str(s) != unicodedata.normalize("NFD", s) or nfkd.normalize_str(s) != unicodedata.normalize("NFKD", s):
        inert.add(c)
    elif unicodedata.combining(s) and nfd.normalize_str("a" + s + "\u0334") == "a" + s + "\u0334" and unicodedata.combining(s) != 1:
        inert.add(c)
    elif c in since14 and nfkd.normalize_str("a" + s + "\u0334") == "a" + s + "\u0334":
        inert.add(c)
strip = normalizers.StripAccents()
marks = {c for c in POINTS if strip.normalize_str(chr(c)) == ""}
bert = lambda **on: normalizers.BertNormalizer(**{"clean_text": False, "handle_chinese_chars": False, "strip_accents": False,
                                                  "lowercase": False, **on})
accents, clean, apart = bert(strip_accents=True), bert(clean_text=True), bert(handle_chinese_chars=True)
nonspacing = {c for c in POINTS if accents.normalize_str(chr(c)) == ""}
controls = {c for c in POINTS if clean.normalize_str(chr(c)) == ""}
chinese = {c for c in POINTS if apart.normalize_str(chr(c)) != chr(c)}
cut = pre_tokenizers.Punctuation("removed")
signs = {c for c in POINTS if len(cut.pre_tokenize_str("a" + chr(c) + "a")) == 2}
table("letters", ranges(letters))
table("numbers", ranges(numbers))
table("numerics", ranges(numeric - numbers))
table("wordOthers", ranges(word - letters))
table("marks", ranges(marks))
table("nonspacing", ranges(nonspacing))
table("controls", ranges(controls))
table("chinese", ranges(chinese))
table("signs", ranges(signs))
table("inert", ranges(inert))
new = [(c, lower.normalize_str(chr(c))) for c in POINTS if c > 0x130 and lower.normalize_str(chr(c)) != chr(c)]
old = {c for c in POINTS if chr(c).lower() != chr(c)}
new = [(c, ord(s)) for c, s in new if c not in old and c not in since14]
table("lowers", new)
