"""Compares replies and passes of llama.cpp and unmask, which read files of the same shapes, in turn.

    python3 tools/peers/llamacpp.py --build DIR     # once: llama.cpp, a quarter of an hour of a processor
    python3 tools/peers/llamacpp.py --llama DIR [--layers 4] [--threads 2] [--rounds 3] [--out bench/results/llamacpp.json]

The first command needs pip, cmake and a C++ compiler. It takes llama.cpp's source from the package
llama-cpp-python, and builds llama-bench and llama-diffusion-cli. The second needs Go, and for all
layers 10 GB of disk for a time and 6 GB of memory.

Replies, in tokens per second, the prompt's pass among the seconds, for the shapes of four models in Q4_K with
random weights, 128 + 64 positions, or --new:

- llama.cpp left to right: llama-bench on a Llama of the same shapes, one token a pass;
- llama.cpp diffusion: llama-diffusion-cli, one token a pass over all positions;
- unmask: the loops of tools/peers/replies.

Random weights are sure of nothing, so the table says what is assumed of confidence. With fewer
layers the vocabulary is smaller in proportion, so that the head keeps its share of a pass.

Passes: a prompt of 256 tokens by llama-bench, and unmask's pass over 256 positions that see each other,
which leaves hidden states; llama-bench reads logits of the last token only. Of LLaDA-MoE also 32 tokens
by llama-bench, and unmask's pass over a block of 32 that sees 224 others.

A round runs each program in a process of its own; a figure is the median of the rounds. --out keeps them all.
"""
import argparse
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile

import results

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCE = "llama-cpp-python==0.3.36"
PROGRAMS = ("llama-bench", "llama-diffusion-cli")
PROMPT, BLOCK, ROWS = 128, 32, 256
MODELS = (("Nemotron-Labs-Diffusion-3B", "nemotron-3b", 26, 131072, "nemotron-3b", "0.3,0.5,0.7,0.85"),
          ("LLaDA-8B", "llada-8b", 32, 126464, "llada-8b", "0.1,0.25,0.4,0.7"),
          ("Dream-7B", "dream-7b", 28, 152064, "llada-8b", "0.1,0.25,0.4,0.7"),
          ("LLaDA-MoE-7B-A1B", "llada-moe", 16, 157184, "llada-8b", "0.1,0.25,0.4,0.7"))


def build(folder):
    """Puts llama.cpp's programs into folder."""
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "llama-cpp-python", "-d", work, SOURCE],
                       check=True)
        with tarfile.open(glob.glob(os.path.join(work, "*.tar.gz"))[0]) as tar:
            tar.extractall(work, filter="data")
        source = glob.glob(os.path.join(work, "*", "vendor", "llama.cpp"))[0]
        subprocess.run(["cmake", "-S", source, "-B", work + "/build", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
                        "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF",
                        "-DLLAMA_BUILD_SERVER=OFF"], check=True)
        subprocess.run(["cmake", "--build", work + "/build", "-j", str(os.cpu_count()), "--target", *PROGRAMS], check=True)
        os.makedirs(folder, exist_ok=True)
        for name in PROGRAMS:
            os.replace(os.path.join(work, "build", "bin", name), os.path.join(folder, name))


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return done


def lines(*command):
    return [json.loads(line) for line in run(*command).stdout.splitlines()]


class Tools:
    def __init__(self, folder, llama, threads, new):
        self.folder, self.llama, self.threads, self.new = folder, llama, str(threads), new
        for name in ("cmd/unmask", "tools/makemodel", "tools/peers/replies"):
            run("go", "build", "-C", ROOT, "-o", self.at(os.path.basename(name)), "./" + name)

    def at(self, name):
        return os.path.join(self.folder, name)

    def make(self, name, *flags):
        file = self.at(name + ".gguf")
        run(self.at("makemodel"), *flags[:-1], file, flags[-1])
        return file

    def bench(self, file, prompt, new=0):
        """Seconds of llama.cpp for a prompt and what it writes from left to right."""
        said = run(os.path.join(self.llama, "llama-bench"), "-m", file, "-t", self.threads, "-p", "0", "-n", "0",
                   "-pg", f"{prompt},{new}", "-r", "1", "-o", "json")
        return json.loads(said.stdout)[0]["avg_ns"] / 1e9

    def diffusion(self, file):
        """Passes and seconds of a reply by llama.cpp's diffusion program: each block has a step for each
        position, and blocks beyond the end have one."""
        length = PROMPT + self.new
        said = run(os.path.join(self.llama, "llama-diffusion-cli"), "-m", file, "-t", self.threads, "-p", "a" * PROMPT,
                   "-c", str(length), "-b", str(length), "-ub", str(length), "--diffusion-steps", str(length),
                   "--diffusion-block-length", str(BLOCK), "--temp", "0")
        found = re.search(r"total time: ([\d.]+)ms", said.stdout + said.stderr)
        if not found:
            sys.exit("llama-diffusion-cli says no time: " + (said.stdout + said.stderr)[-2000:])
        return self.new + PROMPT // BLOCK, float(found[1]) / 1000


def replies(tools, layers, rounds, models, whole, shares):
    """Prints the tables of replies, and returns their rows."""
    kept, new = [], tools.new
    for title, like, every, words, loops, sure in MODELS:
        if models and like not in models:
            continue
        n = min(layers or every, every)
        size = ["-like", like, "-layers", str(n), "-vocab", str(max(4096, words * n // every))]
        own, plain = tools.make("own", *size, "q4_k"), tools.make("llama", *size, "-arch", "llama", "q4_k")
        rows = {}  # (program, what is assumed) -> passes, tokens per second of each round

        def add(name, assumed, passes, rate):
            rows.setdefault((name, assumed), (passes, []))[1].append(rate)

        for _ in range(rounds):
            add("llama.cpp, left to right", "-", new, new / tools.bench(plain, PROMPT, new))
            if loops == "llada-8b" and whole:
                passes, seconds = tools.diffusion(own)
                add("llama.cpp, diffusion", "-", passes, new / seconds)
            flags = ["-file", own, "-like", loops, "-threads", tools.threads, "-new", str(new), "-sure", shares or sure, "-json",
                     f"-plain={str(whole).lower()}"]
            for one in lines(tools.at("replies"), *flags):
                alone = one["mode"] in ("ar", "plain")  # confidence changes nothing
                kind = "right drafts" if one["mode"].startswith("self") else "sure positions"
                add("unmask, " + one["mode"], "-" if alone else f"{one['sure']:.0%} {kind}", one["passes"], new / one["seconds"])
        os.remove(own)
        os.remove(plain)
        base = statistics.median(rows["llama.cpp, left to right", "-"][1])
        print(f"\n{title}, {n} of {every} layers, Q4_K, {tools.threads} threads, {PROMPT} + {new} positions\n")
        print("| | assumed | passes | tokens a pass | tokens a second | times llama.cpp left to right |")
        print("|---|---|---|---|---|---|")
        for (name, assumed), (passes, rates) in rows.items():
            rate = statistics.median(rates)
            print(f"| {name} | {assumed} | {passes} | {new / passes:.2f} | {rate:.2f} | {rate / base:.2f} |", flush=True)
            kept.append({"name": "/".join([title, name] + [assumed] * (assumed != "-")), "program": name, "assumed": assumed,
                         "layers": n, "of": every, "tokens": new, "passes": passes, "tokens_a_second": rates})
    return kept


def passes(tools, kinds, rounds):
    """Prints the times of passes, and returns their rows."""
    kept = []
    for like, kind, rows in [("llada-8b", k, ROWS) for k in kinds] + [("llada-moe", "q4_k", n) for n in (ROWS, BLOCK) if kinds]:
        arch = ["-arch", "llama"] if like == "llada-8b" else []
        file = tools.make("pass", "-like", like, "-layers", "2", *arch, kind)
        measured = ("forward/" if rows == ROWS else "block32/") + ("llama8b/" if arch else "llada-moe/") + kind
        theirs, ours, shares = [], [], []
        for _ in range(rounds):
            theirs.append(tools.bench(file, rows))
            one = lines(tools.at("unmask"), "bench", "--json", "--only", measured, "--threads", tools.threads, "--samples", "3")[-1]
            ours.append(one["seconds"])
            shares.append(one["share"])
        os.remove(file)
        kept += [{"name": f"{measured}/llama.cpp", "seconds": theirs},
                 {"name": f"{measured}/unmask", "seconds": ours, "share": shares}]
        t, o, share = (statistics.median(x) for x in (theirs, ours, shares))
        print(f"{measured}, a pass of {rows} rows: llama.cpp {t:.3f} s, unmask {o:.3f} s, {share:.0%} of its ceiling: "
              f"{t / o:.2f} times as fast", flush=True)
    return kept


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", metavar="DIR", help="build llama.cpp into a folder, and do nothing else")
    p.add_argument("--llama", metavar="DIR", help="folder of llama-bench and llama-diffusion-cli")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--layers", type=int, default=0, help="layers of the replies' models, 0 for all")
    p.add_argument("--out", metavar="FILE", help="keep every round in a file of bench/results")
    p.add_argument("--cached", action="store_true", help="leave out the loops whose passes are over all positions")
    p.add_argument("--new", type=int, default=64, help="tokens of a reply")
    p.add_argument("--models", default="", help="of the replies, such as llada-8b,llada-moe; empty for all")
    p.add_argument("--sure", default="", help="shares of sure positions, such as 0.1,0.25; empty for the usual ones")
    p.add_argument("--types", default="q4_k,q8_0", help="of the passes; empty for none")
    a = p.parse_args()
    if a.build:
        return build(a.build)
    if not a.llama:
        p.error("name the folder of llama.cpp's programs: --llama DIR")
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(folder, a.llama, a.threads, a.new)
        rows = passes(tools, [t for t in a.types.split(",") if t], a.rounds)
        rows += replies(tools, a.layers, a.rounds, a.models, not a.cached, a.sure)
    if a.out:
        results.write(a.out, rows, threads=a.threads, llama_cpp=SOURCE)


if __name__ == "__main__":
    main()
