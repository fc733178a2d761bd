"""Writes what was measured into a file of bench/results: its format is in bench/README.md, under "Results".

    python3 tools/peers/results.py --out bench/results/bench.json --rounds 3 -- ./unmask bench --json --all --threads 2

runs a command that prints a JSON object a line, so many times, and keeps every round. The other scripts of this
folder call write().
"""
import argparse
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LEVELS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimd", "asimddp", "bf16")


def machine():
    """The processor, its cores, memory and the instruction sets that matter here."""
    processor, flags = platform.processor() or platform.machine(), []
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as f:
            found = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in f)}
        processor = found.get("model name", processor)
        family = [f"{key} {found[key]}" for key in ("cpu family", "model") if key in found]
        processor += f" ({', '.join(family)})" if family else ""
        flags = found.get("flags", found.get("Features", "")).split()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"processor": processor, "cores": os.cpu_count(), "memory_gb": round(memory / 1e9, 1),
            "instructions": " ".join(x for x in LEVELS if x in flags) or platform.machine()}


def command():
    """The command that runs, from the repository's root, with names for files elsewhere."""
    script = os.path.relpath(os.path.abspath(sys.argv[0]), ROOT)
    return shlex.join(["python3", script, *(os.path.basename(a) if os.path.isabs(a) else a for a in sys.argv[1:])])


def write(out, rows, **facts):
    """Writes rows, dicts with a name of their own. A list of numbers has every round; all else is the same in each.
    facts are what holds for all rows, as threads=2."""
    names = [row["name"] for row in rows]
    for name in names:
        if names.count(name) > 1:
            sys.exit(f"two rows are called {name}")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    head = {"machine": machine(), "commit": commit, "command": command(),
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(), **facts}
    with open(out, "w") as f:
        f.write(json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n  ')
        f.write(",\n  ".join(json.dumps(row) for row in rows) + "\n ]\n}\n")


def rounds_of(lines):
    """A row of a line of each round: its fractions and what differs become lists of rounds."""
    row = {}
    for key in lines[0]:
        values = [line[key] for line in lines]
        measured = any(isinstance(v, float) for v in values) or any(v != values[0] for v in values)
        row[key] = values if measured else values[0]
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, help="the file, such as bench/results/bench.json")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--by", default="name", help="the fields that name a row, such as mode,sure")
    p.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    a = p.parse_args()
    run, rows = a.command[a.command[:1] == ["--"]:], {}
    for n in range(a.rounds):
        done = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True)
        for line in done.stdout.splitlines():
            if not line.startswith("{"):
                continue
            one = json.loads(line)
            name = "/".join(str(one[key]) for key in a.by.split(","))
            rows.setdefault(name, []).append({"name": name, **one})
            if len(rows[name]) > n + 1:
                sys.exit(f"two rows are called {name}")
    if not rows:
        sys.exit(f"{shlex.join(run)} prints no JSON, want an object a line")
    write(a.out, [rounds_of(lines) for lines in rows.values()])


if __name__ == "__main__":
    main()
