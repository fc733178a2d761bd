"""Runs LLGuidance, XGrammar and unmask on the same JSON Schemas and compares verdicts and times.

    python3 -m venv venv && venv/bin/pip install llguidance xgrammar
    venv/bin/python bench/peers/schemas.py SCHEMAS.jsonl[.gz] [--limit 100]

A line of the file is {"name", "schema", "tests": [{"valid", "data"}]}. A schema passes if a program
compiles it and judges all of its instances right; one that it does not compile is refused. LLGuidance
and XGrammar read bytes, in place of a model's tokens; unmask prints the time of its whole command, with
loading the demo. Needs Go to build unmask.
"""
import argparse
import gzip
import json
import os
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def written(value):
    return json.dumps(value, ensure_ascii=False)


def llguidance(schema):
    import llguidance as guide
    tokens = [bytes([c]) for c in range(256)] + [b"<end>"]

    class Bytes:
        eos_token_id, bos_token_id, unk_token_id = 256, None, None
        special_token_ids = [256]

        def __init__(self):
            self.tokens = tokens

        def __call__(self, text):
            return list(text if isinstance(text, bytes) else text.encode())

    wrapped = guide.LLTokenizer(guide.TokenizerWrapper(Bytes()))
    grammar = guide.LLMatcher.grammar_from_json_schema(schema)
    matcher = guide.LLMatcher(wrapped, grammar)
    if matcher.is_error():
        raise ValueError(matcher.get_error())

    def accepts(value):
        matcher.reset()
        data = list(written(value).encode())
        return matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting()

    return accepts


def xgrammar(schema):
    import xgrammar as xg
    info = xg.TokenizerInfo([bytes([c]) for c in range(256)] + [b"<end>"],
                            vocab_type=xg.VocabType.RAW, stop_token_ids=[256])
    compiled = xg.GrammarCompiler(info, max_threads=1).compile_json_schema(
        json.dumps(schema), any_whitespace=False, strict_mode=False)

    def accepts(value):
        matcher = xg.GrammarMatcher(compiled, terminate_without_stop_token=True)
        return matcher.accept_string(written(value)) and matcher.is_terminated()

    return accepts


def unmask(binary, folder):
    def compiled(schema):
        path, lines = os.path.join(folder, "s.json"), os.path.join(folder, "i.jsonl")
        with open(path, "w") as f:
            json.dump(schema, f)

        def run(values):
            with open(lines, "w") as f:
                f.writelines(json.dumps(v) + "\n" for v in values)
            out = subprocess.run([binary, "schema", path, "--json", "--instances", lines],
                                 capture_output=True, text=True)
            if out.returncode:
                raise ValueError(out.stderr.strip())
            return [json.loads(line)["accepted"] for line in out.stdout.splitlines()[1:]]

        run([])
        return lambda value: run([value])[0]

    return compiled


def judge(compiled, row):
    begin = time.perf_counter()
    try:
        accepts = compiled(row["schema"])
    except Exception:  # a program's way to refuse a schema
        return "refused", time.perf_counter() - begin
    seconds = time.perf_counter() - begin
    try:
        right = all(accepts(t["data"]) == t["valid"] for t in row["tests"])
    except Exception:
        return "refused", seconds
    return "pass" if right else "wrong", seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--limit", type=int)
    args = parser.parse_args()
    opened = gzip.open if args.file.endswith(".gz") else open
    with opened(args.file, "rt") as f:
        rows = [json.loads(line) for line in f][:args.limit]
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, "unmask")
        subprocess.run(["go", "build", "-o", binary, "./cmd/unmask"], check=True,
                       cwd=os.path.join(HERE, "..", ".."))
        programs = {"llguidance": llguidance, "xgrammar": xgrammar, "unmask": unmask(binary, folder)}
        for name, compiled in programs.items():
            verdicts = [judge(compiled, row) for row in rows]
            counts = {v: sum(x == v for x, _ in verdicts) for v in ("pass", "wrong", "refused")}
            times = sorted(s for _, s in verdicts)
            print(f"{name}: {counts}, {statistics.median(times) * 1000:.1f} ms in the median, "
                  f"{times[len(times) * 99 // 100] * 1000:.1f} ms for 99 %", flush=True)


if __name__ == "__main__":
    main()
