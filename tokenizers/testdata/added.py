"""Writes added.json: ids that Hugging Face's library gives where added tokens touch, lie in one
another or take the same white space (pip install tokenizers==0.23.3).

    python3 added.py
"""
import itertools
import json

from tokenizers import Tokenizer

LETTERS = "abcft<|>endox "
TEXTS = ["x<|endoft|>oft", "<|endoft|>", "oft oft", "a<|endoft|", "aa  b", "aa b  oft  aa", "<|end oft|>",
         "b  aa  <|endoft|> oft", "oftoft  aa aa"]
vocab = {c: i for i, c in enumerate(LETTERS)}

files = []
for normalizer in None, {"type": "Lowercase"}:
    for end, inner, special, single, turned in itertools.product((False, True), repeat=5):
        tokens = [dict(content="<|endoft|>", special=True, normalized=end),
                  dict(content="oft", special=special, normalized=inner, single_word=single),
                  dict(content=" ", lstrip=True, rstrip=True), dict(content="aa", rstrip=True)]
        flags = dict(special=False, single_word=False, lstrip=False, rstrip=False, normalized=False)
        free = itertools.count(len(vocab))
        added = [{"id": vocab[t["content"]] if t["content"] in vocab else next(free), **flags, **t}
                 for t in (tokens[::-1] if turned else tokens)]
        file = dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=normalizer,
                    pre_tokenizer=None, post_processor=None, decoder=None,
                    model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None,
                               end_of_word_suffix=None, fuse_unk=False, byte_fallback=False, vocab=vocab,
                               merges=[]))
        tokenizer = Tokenizer.from_str(json.dumps(file))
        cases = []
        for text in TEXTS:
            ids = []
            for plain in False, True:
                tokenizer.encode_special_tokens = plain
                ids.append(tokenizer.encode(text).ids)
            cases.append(dict(text=text, ids=ids))
        files.append(dict(file=file, cases=cases))
json.dump(files, open("added.json", "w"), separators=(",", ":"))
print(len(files))
