"""Tables, verdicts and a figure of what trained.py measured."""
import json, os, random

LABELS = {"antiberty": "AntiBERTy", "sapiens-h": "Sapiens heavy", "sapiens-l": "Sapiens light",
          "rxnmapper": "rxnmapper"}
COLOURS = {"random": "#888888", "halton": "#b8860b", "confidence": "#2ca02c", "maskgit": "#d62728",
           "moment": "#9467bd", "temp": "#e377c2", "u-moment": "#1f77b4", "hybrid": "#17becf",
           "dplm": "#8c564b"}


def mean(values):
    return sum(values) / len(values)


def interval(values, rounds=2000):
    """The mean and its 95 % interval, by bootstrap over antibodies."""
    g, n = random.Random(1), len(values)
    means = sorted(mean(g.choices(values, k=n)) for _ in range(rounds))
    return mean(values), means[int(0.025 * rounds)], means[int(0.975 * rounds)]


def cell(values):
    return "%.3f (%.3f to %.3f)" % interval(values)


def right_table(table):
    rows = ["| model | " + " | ".join(f"{s} masked" for s in ("0.15", "0.5", "0.8")) + " |", "|---|---|---|---|"]
    for name, label in LABELS.items():
        cells = ["%.3f (%.3f to %.3f)" % tuple(table[f"{name} {s}"]) for s in ("0.15", "0.5", "0.8")]
        rows.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def loops_table(results, model):
    rows = ["| rule | steps | recovery | judge's -log p | diversity |", "|---|---|---|---|---|"]
    for r in results:
        if r["model"] == model:
            steps = r["steps"] or "-"
            rows.append(f"| {r['rule']} | {steps} | {cell(r['recovery'])} | {cell(r['surprise'])} | "
                        f"{cell(r['diversity'])} |")
    return "\n".join(rows)


def cost(results):
    """What temperature sampling costs in diversity."""
    rows = ["| claim | model | change of diversity | verdict |", "|---|---|---|---|"]
    for model in ("sapiens-h", "antiberty"):
        for rule in ("temp", "moment", "maskgit"):
            values = change(results, model, rule, "random", "diversity")
            if values:
                at, low, high = interval(values)
                rows.append(f"| temperature sampling costs diversity, {rule} | {LABELS[model]} | "
                            f"{at:+.3f} ({low:+.3f} to {high:+.3f}) | {verdict('lower', low, high)} |")
    return "\n".join(rows)


def change(results, model, rule, other, measure):
    """The paired differences, rule - other, by antibody, of means over the steps that both have."""
    find = lambda name: {r["steps"]: r[measure] for r in results if r["model"] == model and r["rule"] == name}
    a, b = find(rule), find(other)
    steps = [s for s in a if s in b]
    if not steps:
        return None
    return [mean([a[s][i] - b[s][i] for s in steps]) for i in range(len(a[steps[0]]))]


CLAIMS = [("Moment follows MaskGIT", "moment", "maskgit", "equal"),
          ("temperature sampling alone lowers it", "temp", "random", "lower"),
          ("U-Moment chooses better positions than random", "u-moment", "random", "lower"),
          ("Hybrid chooses better positions than random", "hybrid", "random", "lower"),
          ("Hybrid is at least as good as U-Moment", "hybrid", "u-moment", "no higher"),
          ("partial caching gains per step, random", "random+cache", "random", "lower"),
          ("partial caching gains per step, hybrid", "hybrid+cache", "hybrid", "lower")]
MARGIN = 0.1  # nats within which two rules count as equal


def verdict(kind, low, high):
    if kind == "equal":
        return "holds" if -MARGIN < low and high < MARGIN else "does not hold" if low > MARGIN or high < -MARGIN \
            else "undecided"
    if kind == "no higher":
        return "holds" if high < MARGIN else "does not hold" if low > MARGIN else "undecided"
    return "holds" if high < 0 else "does not hold" if low > 0 else "undecided"


def verdicts(results):
    rows = ["| claim | model | change of the judge's -log p | verdict |", "|---|---|---|---|"]
    for text, rule, other, kind in CLAIMS:
        for model in ("sapiens-h", "antiberty"):
            values = change(results, model, rule, other, "surprise")
            if values:
                at, low, high = interval(values)
                rows.append(f"| {text} | {LABELS[model]} | {at:+.3f} ({low:+.3f} to {high:+.3f}) | "
                            f"{verdict(kind, low, high)} |")
    return "\n".join(rows)


def figure(results, model="sapiens-h"):
    """Recovery and the judge's -log p against steps, as SVG."""
    panels = [("recovery", "loop residues recovered"), ("surprise", "judge's -log p, nats"),
              ("diversity", "differing residues of two variants")]
    width, height, left, top = 300, 230, 55, 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{3 * (width + left) + 170}" height="{height + 80}" '
           'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>']
    own = [r for r in results if r["model"] == model and r["steps"]]
    steps = sorted({r["steps"] for r in own})
    for k, (key, title) in enumerate(panels):
        means = [mean(r[key]) for r in own]
        natural = [mean(r[key]) for r in results if r["model"] == model and not r["steps"] and key == "surprise"]
        low, high = min(means + natural), max(means + natural)
        pad = 0.08 * (high - low)
        low, high = low - pad, high + pad
        x0 = k * (width + left) + left
        x = lambda s: x0 + width * steps.index(s) / (len(steps) - 1)
        y = lambda v: top + height * (high - v) / (high - low)
        out.append(f'<text x="{x0 + width / 2}" y="18" text-anchor="middle">{title}</text>'
                   f'<rect x="{x0}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#ccc"/>')
        for i in range(5):
            v = low + (high - low) * i / 4
            out.append(f'<text x="{x0 - 5}" y="{y(v) + 4}" text-anchor="end">{v:.2f}</text>')
        for s in steps:
            out.append(f'<text x="{x(s)}" y="{top + height + 16}" text-anchor="middle">{s}</text>')
        out.append(f'<text x="{x0 + width / 2}" y="{top + height + 34}" text-anchor="middle">steps</text>')
        for v in natural:
            out.append(f'<line x1="{x0}" x2="{x0 + width}" y1="{y(v)}" y2="{y(v)}" stroke="black" '
                       f'stroke-dasharray="2 3"/><text x="{x0 + 4}" y="{y(v) - 4}">the antibodies</text>')
        for rule in dict.fromkeys(r["rule"] for r in own):
            points = sorted((r["steps"], mean(r[key])) for r in own if r["rule"] == rule)
            dash = ' stroke-dasharray="5 4"' if "+cache" in rule else ""
            line = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in points)
            out.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[rule.split("+")[0]]}" '
                       f'stroke-width="2"{dash}/>')
    for i, rule in enumerate(dict.fromkeys(r["rule"] for r in own)):
        at, dash = 3 * (width + left) + 20, ' stroke-dasharray="5 4"' if "+cache" in rule else ""
        out.append(f'<line x1="{at}" x2="{at + 22}" y1="{40 + 18 * i}" y2="{40 + 18 * i}" stroke-width="2" '
                   f'stroke="{COLOURS[rule.split("+")[0]]}"{dash}/><text x="{at + 27}" y="{44 + 18 * i}">{rule}</text>')
    return "\n".join(out) + "</svg>\n"


def write(folder):
    read = lambda name: json.load(open(os.path.join(folder, name)))
    results = read("loops.json")
    parts = ["## Masked tokens right\n\n" + right_table(read("right.json")),
             "## Verdicts\n\n" + verdicts(results) + "\n\n" + cost(results)]
    for model, judge in ("sapiens-h", "AntiBERTy"), ("antiberty", "Sapiens heavy"):
        parts.append(f"## Loops filled by {LABELS[model]}, judged by {judge}\n\n" + loops_table(results, model))
    with open(os.path.join(folder, "report.md"), "w") as f:
        f.write("\n\n".join(parts) + "\n")
    with open(os.path.join(folder, "loops.svg"), "w") as f:
        f.write(figure(results))
    print(os.path.join(folder, "report.md"))
