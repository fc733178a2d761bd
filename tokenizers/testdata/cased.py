"""Prints the letters and marks that Hugging Face's tokenizers classes by case otherwise than Go's unicode
tables: lines "FIRST LAST CLASS", 1 for upper and title case, 2 for lower case, 3 for no case and marks.

    go run cased.go | python3 cased.py        cased.go prints "RUNE CLASS" of every rune with a class
"""
import sys
from tokenizers import Regex, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ALL = "".join(map(chr, POINTS))


def kept(pattern):
    cut = pre_tokenizers.Split(Regex("[^" + pattern + "]"), "removed")
    return {ord(c) for s, _ in cut.pre_tokenize_str(ALL) for c in s}


theirs = {}
for kind, pattern in ((1, r"\p{Lu}\p{Lt}"), (2, r"\p{Ll}"), (3, r"\p{Lm}\p{Lo}\p{M}")):
    for c in kept(pattern):
        theirs[c] = kind
ours = dict(tuple(map(int, line.split())) for line in sys.stdin)
out = []
for c in sorted(c for c in theirs.keys() | ours.keys() if theirs.get(c, 0) != ours.get(c, 0)):
    kind = theirs.get(c, 0)
    if out and out[-1][1] == c - 1 and out[-1][2] == kind:
        out[-1][1] = c
    else:
        out.append([c, c, kind])
for first, last, kind in out:
    print(f"{first:#x} {last:#x} {kind}")
