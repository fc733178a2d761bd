"""The page of evidence: results.json as Markdown."""


def summarize(row):
    """One line of what came out."""
    if row["status"] != "done":
        return f"{row['status']}: {row['reason']}"
    result = row["result"]
    parts = []
    if "logits" in result:
        f32 = result["logits"]["f32"]
        parts.append(f"logits differ by {f32['difference']:.1e} of the largest, the most probable token is "
                     f"the same in {f32['equal']:.2%}")
    if "vectors" in result:
        f32 = result["vectors"]["f32"]
        parts.append(f"vectors differ by {f32['difference']:.1e}, {f32['ranks']:.1%} of queries rank alike")
    if "greedy" in result:
        parts.append(f"{result['greedy']['equal']} of {result['greedy']['of']} tokens of a greedy run equal")
    if "questions" in result:
        parts.append(f"{result['questions']['right']} of {result['questions']['of']} questions right")
    if "sound_seconds" in result:
        parts.append(f"{result['sound_seconds']:.1f} s of sound")
    return "; ".join(parts)


def render(results):
    """The whole page."""
    run = results["run"]
    lines = ["# Published weights, measured", "",
             f"{run['date']}, {run['processor']}, {run['cores']} cores, {run['system']} {run['machine']}, "
             f"hub {run['hub']}.", "", *["    " + line for line in run["unmask"]], "",
             f"    {run['command']}", "", *render_comparison(results["rows"]), *render_vectors(results["rows"]),
             *render_quality(results["rows"]), *render_unfinished(results["rows"]), *render_files(results["rows"])]
    return "\n".join(lines) + "\n"


def table(title, head, rows):
    """A section with a table, nothing where it would be empty."""
    if not rows:
        return []
    lines = [f"## {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return [*lines, ""]


def with_result(rows, name):
    return [r for r in rows if r["status"] == "done" and name in r["result"]]


def render_cost(result):
    """Seconds and megabytes of unmask, and of the peer where there is one."""
    ours = f"{result['seconds']:.1f} s, {result['memory'] / 1e6:.0f} MB"
    peer = result.get("peer")
    if not peer:
        return ours, ""
    return ours, f"{peer['load_seconds'] + peer['seconds']:.1f} s, {peer['memory'] / 1e6:.0f} MB"


def render_comparison(rows):
    cells = []
    for row in with_result(rows, "logits"):
        result = row["result"]
        by_precision = [f"{c['difference']:.1e}, {c['equal']:.2%}" for c in result["logits"].values()]
        cells.append([row["name"], row["judged_by"], result["logits"]["f32"]["rows"], *by_precision,
                      *render_cost(result)])
    return table("Logits: the largest difference relative to the largest value, and equal argmaxes",
                 ["model", "compared with", "rows", "f32", "bf16", "int8", "unmask", "the other"], cells)


def render_vectors(rows):
    cells = []
    for row in with_result(rows, "vectors"):
        result = row["result"]
        by_precision = [f"{c['difference']:.1e}, {c['ranks']:.1%}" for c in result["vectors"].values()]
        cells.append([row["name"], row["judged_by"], result["texts"], *by_precision, *render_cost(result)])
    return table("Vectors: the largest difference, and queries whose ten nearest neighbours rank alike",
                 ["model", "compared with", "texts", "f32", "bf16", "int8", "unmask", "the other"], cells)


def render_quality(rows):
    cells = []
    for row in rows:
        if row["status"] != "done":
            continue
        result = row["result"]
        measured = []
        if "greedy" in result:
            measured.append(f"greedy run: {result['greedy']['equal']} of {result['greedy']['of']} tokens equal")
        if "questions" in result:
            measured.append(f"{result['questions']['right']} of {result['questions']['of']} questions right")
        for steps, found in result.get("perplexity", {}).items():
            measured.append(f"{steps} steps: " + ", ".join(f"{n} {v:.2f}" for n, v in found.items()))
        if "sound_seconds" in result:
            measured.append(f"{result['sound_seconds']:.1f} s of sound for a sentence")
        if measured or row["published"]:
            cells.append([row["name"], "; ".join(measured) or "not measured", row["published"] or "-"])
    return table("Runs and quality, and what the authors report by their own protocol",
                 ["model", "measured", "published"], cells)


def render_unfinished(rows):
    cells = [[r["name"], r["status"], r["reason"].replace("|", "/")] for r in rows if r["status"] != "done"]
    return table("Not measured", ["model", "what", "reason"], cells)


def render_files(rows):
    cells = [[r["name"], r.get("from", ""), r.get("revision", ""), r["licence"], f["name"], f["bytes"], f["sha256"]]
             for r in rows for f in r.get("files", [])]
    return table("Files", ["model", "from", "revision", "licence", "file", "bytes", "sha256"], cells)
