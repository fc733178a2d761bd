"""Runs LLGuidance, XGrammar and unmask on the same JSON Schemas and tokenizer, and compares verdicts, times and memory.

    python3 -m venv venv && venv/bin/pip install llguidance xgrammar
    venv/bin/python tools/peers/schemas.py SCHEMAS.jsonl[.gz] [--tokenizer tokenizer.json] [--limit 100]

A line of the file is {"name", "schema", "tests": [{"valid", "data"}]}. A schema passes if a program
compiles it and judges all of its instances right; one that it does not compile is refused, and one
at which it stops or takes longer than --seconds, on the clock, counts as stopped, with that time. Times
are the processor's, from the schema to the tokens that may come first; every program is a process with one
thread, and its memory is that of the process. An instance is written as the program would write it, in
tokens of single bytes.

Without --tokenizer it is Qwen2's, which Dream has too: 151,643 tokens in the package dashscope, of which
pip downloads the wheel and this script reads that file alone. Needs Go to build unmask.
"""
import argparse
import base64
import gzip
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

import needs

HERE = os.path.dirname(os.path.abspath(__file__))
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
END = "<|endoftext|>"


# ------------------------------------------------------------------- tokenizer


def letters():
    """GPT-2's letters, one a byte."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in shown]
    return {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(rest)}


def merged(ranks, token):
    """The two parts that a token is merged from: what merges of lower rank leave of its bytes."""
    parts = [token[i:i + 1] for i in range(len(token))]
    while len(parts) > 2:
        i = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], len(ranks)))
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return parts


def qwen(folder):
    """Writes Qwen2's tokenizer.json, from the ranks in the package dashscope, and returns its name."""
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                    "--dest", folder, "dashscope==2.0.2"], check=True)
    wheel, = (n for n in os.listdir(folder) if n.endswith(".whl"))
    with zipfile.ZipFile(os.path.join(folder, wheel)) as z:
        lines = z.read("dashscope/resources/qwen.tiktoken").split(b"\n")
    ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in lines if line)}
    shown = letters()

    def spelt(token):
        return "".join(shown[b] for b in token)

    data = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": len(ranks), "content": END, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": QWEN}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {spelt(t): r for t, r in ranks.items()},
                  "merges": [[spelt(p) for p in merged(ranks, t)]
                             for t, _ in sorted(ranks.items(), key=lambda x: x[1]) if len(t) > 1]},
    }
    name = os.path.join(folder, "tokenizer.json")
    with open(name, "w") as f:
        json.dump(data, f)
    return name


def tokens_of(name):
    """The bytes of each token of a byte-level tokenizer.json, b"" for special ones, and the end's id."""
    with open(name) as f:
        data = json.load(f)
    byte = {c: b for b, c in letters().items()}
    ids = {i: bytes(byte[c] for c in t) for t, i in data["model"]["vocab"].items()}
    for t in data["added_tokens"]:
        ids[t["id"]] = b"" if t["special"] else t["content"].encode()
        if t["content"] == END:
            end = t["id"]
    return [ids.get(i, b"") for i in range(max(ids) + 1)], end


# -------------------------------------------------------------------- programs


def written(value):
    return json.dumps(value, ensure_ascii=False).encode()


def llguidance(tokens, end):
    import llguidance as guide
    single = {t: i for i, t in enumerate(tokens) if len(t) == 1}

    class Tokens:
        eos_token_id, bos_token_id, unk_token_id = end, None, None
        special_token_ids = [i for i, t in enumerate(tokens) if not t]

        def __init__(self):
            self.tokens = [t or b"<special %d>" % i for i, t in enumerate(tokens)]

        def __call__(self, text):
            return [single[bytes([b])] for b in (text if isinstance(text, bytes) else text.encode())]

    wrapped = guide.LLTokenizer(guide.TokenizerWrapper(Tokens()))

    def compiled(schema):
        matcher = guide.LLMatcher(wrapped, guide.LLMatcher.grammar_from_json_schema(schema))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        matcher.compute_bitmask()

        def accepts(value):
            matcher.reset()
            data = [single[bytes([b])] for b in written(value)]
            return matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting()

        return accepts

    return compiled


def xgrammar(tokens, end):
    import xgrammar as xg
    info = xg.TokenizerInfo(tokens, vocab_type=xg.VocabType.RAW, stop_token_ids=[end])
    mask = xg.allocate_token_bitmask(1, len(tokens))

    def compiled(schema):
        compiler = xg.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        grammar = compiler.compile_json_schema(json.dumps(schema), any_whitespace=False, strict_mode=False)
        xg.GrammarMatcher(grammar).fill_next_token_bitmask(mask)

        def accepts(value):
            matcher = xg.GrammarMatcher(grammar, terminate_without_stop_token=True)
            return matcher.accept_string(written(value)) and matcher.is_terminated()

        return accepts

    return compiled


def judge(compiled, row):
    begin = time.process_time()
    try:
        accepts = compiled(row["schema"])
    except Exception as e:  # a program's way to refuse a schema
        return {"verdict": "refused", "reason": str(e), "seconds": time.process_time() - begin}
    seconds = time.process_time() - begin
    try:
        right = all(accepts(t["data"]) == t["valid"] for t in row["tests"])
    except Exception as e:
        return {"verdict": "refused", "reason": str(e), "seconds": seconds}
    return {"verdict": "pass" if right else "wrong", "seconds": seconds}


def serve(name, tokenizer):
    """Judges the rows of standard input, a line each, as tools/peers/schemas does for unmask."""
    compiled = {"llguidance": llguidance, "xgrammar": xgrammar}[name](*tokens_of(tokenizer))
    print(json.dumps({"verdict": "ready"}), flush=True)
    for line in sys.stdin:
        print(json.dumps(judge(compiled, json.loads(line))), flush=True)


# ------------------------------------------------------------------- comparing


class Program:
    """A process that judges schemas, begun again where it stops."""

    def __init__(self, command):
        self.command, self.peak = command, 0
        self.begin()
        with open(f"/proc/{self.process.pid}/status") as f:
            self.before = next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024

    def begin(self):
        env = os.environ | {"GOMAXPROCS": "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=env)
        if not self.process.stdout.readline():
            raise SystemExit(f"{' '.join(self.command)} does not begin")

    def end(self):
        self.process.stdin.close()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = status
        self.peak = max(self.peak, usage.ru_maxrss / 1024)

    def judge(self, row, seconds):
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(row) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        timer.cancel()
        if line:
            return json.loads(line)
        try:
            self.end()
        except BrokenPipeError:
            pass
        self.begin()
        return {"verdict": "stopped", "seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--tokenizer", help="a byte-level tokenizer.json")
    parser.add_argument("--limit", type=int, help="schemas, the first of the file")
    parser.add_argument("--seconds", type=float, default=30, help="the longest time for a schema")
    parser.add_argument("--programs", default="llguidance,xgrammar,unmask")
    parser.add_argument("--lines", help="a file for the verdict on each schema")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(args.serve, args.tokenizer)
    if not args.file:
        parser.error("name a file of schemas")
    needs.need(*sorted(set(args.programs.split(",")) - {"unmask"}))
    opened = gzip.open if args.file.endswith(".gz") else open
    with opened(args.file, "rt") as f:
        rows = [json.loads(line) for line in f][:args.limit]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = os.path.abspath(args.tokenizer or qwen(folder))
        binary = os.path.join(folder, "schemas")
        subprocess.run(["go", "build", "-o", binary, "./tools/peers/schemas"], check=True,
                       cwd=os.path.join(HERE, "..", ".."))
        print(f"{len(rows)} schemas, {len(tokens_of(tokenizer)[0])} tokens")
        print("| | passed | refused | wrong | stopped | median | 99 % | worst | peak memory, of it before the first |")
        print("|---|---|---|---|---|---|---|---|---|")
        lines = open(args.lines, "w") if args.lines else io.StringIO()
        for name in args.programs.split(","):
            command = [sys.executable, __file__, "--serve", name, "--tokenizer", tokenizer]
            compare(name, [binary, "-tokenizer", tokenizer] if name == "unmask" else command, rows, args.seconds, lines)


def compare(name, command, rows, seconds, lines):
    program, verdicts = Program(command), []
    for i, row in enumerate(rows):
        verdicts.append(program.judge(row, seconds))
        print(json.dumps({"program": name, "name": row.get("name")} | verdicts[-1]), file=lines, flush=True)
        print(f"\r{name}: {i + 1} of {len(rows)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    program.end()
    counts = [sum(v["verdict"] == x for v in verdicts) for x in ("pass", "refused", "wrong", "stopped")]
    times = sorted(1000 * v["seconds"] for v in verdicts)
    print(f"| {name} | {' | '.join(map(str, counts))} | {statistics.median(times):.1f} ms | "
          f"{times[len(times) * 99 // 100]:.0f} ms | {times[-1]:.0f} ms | "
          f"{program.peak:.0f} MB, {program.before:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
