"""What is measured of a model: the same inputs go to unmask and to its peer, and their outputs are compared."""
import json
import os
import random
import wave

import numpy as np

import program
import tensors
import texts

HERE = os.path.dirname(os.path.abspath(__file__))
SHARES = (0.15, 0.5, 0.8)
PRECISIONS = ("f32", "bf16", "int8")


class Setup:
    """A model that is ready to run: where its files are, and how to run both sides."""

    def __init__(self, model, unmask, folder, original, work, options):
        self.model = model
        self.unmask = unmask

        # folder is what unmask reads, original what was published: a checkpoint is converted first.
        self.folder = folder
        self.original = original

        self.work = work
        self.options = options
        self.facts = unmask.inspect(folder)

    def path(self, name):
        return os.path.join(self.work, name)

    def run_peer(self, source, output, *flags):
        """Runs the peer and returns what it reports: seconds, memory, versions."""
        # Code that a repository brings along is not pulled, so its peer downloads it.
        place = self.model.source if self.model.peer == "remote" else self.original
        command = [self.options.python, os.path.join(HERE, "peers.py"), self.model.peer, place, source, output,
                   "--heads", self.facts["sizes"].get("heads", 0), *flags]
        if self.options.threads:
            command += ["--threads", self.options.threads]
        printed, _, _, _ = program.run(command, env=self.unmask.env)
        return json.loads(printed.splitlines()[-1])


def measure(setup):
    """Returns what came out of a model, a dictionary for the report."""
    return MEASURES[setup.model.task](setup)


# -------------------------------------------------------------------- logits


def text_batches(setup):
    """Batches of tokens from texts, with shares of them masked: what stands around a text stays."""
    with open(setup.path("texts.txt"), "w") as f:
        f.write("\n".join(texts.lines(setup.model.texts)) + "\n")
    setup.unmask.compute("logits", "--model", setup.folder, "--texts", setup.path("texts.txt"),
                         "--out", setup.path("encoded.safetensors"))
    encoded = tensors.read(setup.path("encoded.safetensors"))
    longest = min(setup.model.length, find_length(setup.facts["sizes"]))
    by_length = {}
    for name in sorted(n for n in encoded if n.endswith(".tokens")):
        ids = encoded[name]
        if len(ids) > longest:
            ids = np.concatenate([ids[:longest - 1], ids[-1:]])
        by_length.setdefault(len(ids), []).append(ids)
    return [np.stack(batch) for _, batch in sorted(by_length.items())]


def find_length(sizes):
    """The number of a network's positions: of a picture those of its grid."""
    return sizes.get("length") or sizes["grid"] ** 2


def random_batches(setup):
    """A batch of random tokens, for a folder without a tokenizer."""
    sizes = setup.facts["sizes"]
    g = np.random.default_rng(1)
    length = find_length(sizes)
    if setup.model.task != "pictures":
        length = min(length, setup.model.length)
    vocabulary = sizes.get("codes") or sizes["vocabulary"]
    highest = min(vocabulary, sizes["mask"]) if sizes["mask"] >= vocabulary - 1 else vocabulary
    return [g.integers(0, highest, (4, length))]


def mask_batches(batches, mask):
    """Masks the k-th sequence of a batch with the k-th of SHARES; what begins and ends it stays."""
    g = random.Random(1)
    for batch in batches:
        for k, ids in enumerate(batch):
            inside = range(1, len(ids) - 1)
            for position in g.sample(inside, round(SHARES[k % len(SHARES)] * len(inside))):
                ids[position] = mask
    return batches


def compare_logits(ours, theirs):
    """The difference of two lists of logits, relative to the largest value, and how often their most
    probable tokens are the same."""
    largest = max(np.abs(t).max() for t in theirs)
    difference = max(np.abs(o - t).max() for o, t in zip(ours, theirs))
    equal = sum(int((o.argmax(-1) == t.argmax(-1)).sum()) for o, t in zip(ours, theirs))
    rows = sum(t.shape[0] * t.shape[1] for t in theirs)
    return {"difference": float(difference / largest), "equal": equal / rows, "rows": rows}


def measure_logits(setup, batches):
    """Compares the logits of batches of named inputs with the peer's, at each precision."""
    source = setup.path("inputs.safetensors")
    tensors.write(source, {f"{name}.{i}": array for i, batch in enumerate(batches)
                           for name, array in batch.items()})
    peer = setup.run_peer(source, setup.path("theirs.safetensors"))
    theirs = tensors.read(setup.path("theirs.safetensors"))
    theirs = [theirs[f"logits.{i}"] for i in range(len(batches))]
    result = {"peer": peer, "logits": {}, "seconds": 0.0, "memory": 0}
    for precision in PRECISIONS:
        ours, seconds, memory = unmask_logits(setup, batches, precision)
        width = min(ours[0].shape[-1], theirs[0].shape[-1])  # some programs compute rows without a token
        compared = compare_logits([o[..., :width] for o in ours], [t[..., :width] for t in theirs])
        result["logits"][precision] = compared
        if precision == "f32":
            result["seconds"], result["memory"] = seconds, memory
    return result


def unmask_logits(setup, batches, precision):
    """The logits of batches, with the seconds and the memory of the commands."""
    found, total, largest = [], 0.0, 0
    for batch in batches:
        tensors.write(setup.path("batch.safetensors"), batch)
        _, _, seconds, memory = setup.unmask.compute(
            "logits", "--model", setup.folder, "--tokens", setup.path("batch.safetensors"),
            "--out", setup.path("ours.safetensors"), "--precision", precision)
        total += seconds
        largest = max(largest, memory)
        made = tensors.read(setup.path("ours.safetensors"))
        found.append(np.array(made.get("logits", made.get("logits_cond"))))
    return found, total, largest


def measure_tokens(setup):
    """A model of tokens: logits, and what its kind of quality is."""
    batches = random_batches(setup) if setup.model.tokens_only else text_batches(setup)
    batches = mask_batches(batches, setup.facts["sizes"]["mask"])
    result = measure_logits(setup, [{"tokens": b.astype(np.int64)} for b in batches])
    if setup.model.peer in GREEDY_PEERS:
        result["greedy"] = compare_greedy(setup, batches[0][:2])
    if setup.model.quality == "questions":
        result["questions"] = ask_questions(setup)
    if setup.model.quality == "perplexity" and setup.options.quality:
        result["perplexity"] = measure_perplexity(setup)
    return result


# GREEDY_PEERS are the peers whose folders say which tokens are special.
GREEDY_PEERS = ("masked", "esmc")


def compare_greedy(setup, sequences):
    """Fills the masks of sequences by both programs, the surest position first, and counts the tokens
    that are equal."""
    inputs = {f"tokens.{i}": ids[None].astype(np.int64) for i, ids in enumerate(sequences)}
    tensors.write(setup.path("greedy.safetensors"), inputs)
    setup.run_peer(setup.path("greedy.safetensors"), setup.path("theirs.safetensors"), "--greedy")
    theirs = tensors.read(setup.path("theirs.safetensors"))
    equal = masks = 0
    for name, ids in inputs.items():
        masked = ids[0] == setup.facts["sizes"]["mask"]
        out, _, _, _ = setup.unmask.compute(
            "text", "--model", setup.folder, "--tokens-in", setup.path("greedy.safetensors") + ":" + name,
            "--length", str(len(masked)), "--sampler", "greedy(confidence)",
            "--steps", str(masked.sum()), "--cache=0", "--json")
        ours = np.array(json.loads(out)["ids"])
        masks += int(masked.sum())
        equal += int((ours == theirs[name][0])[masked].sum())
    return {"equal": equal, "of": masks}


def ask_questions(setup):
    """How many of ten questions with one missing word the model answers rightly."""
    lines = "".join(json.dumps({"infill": f"{text}[1]."}) + "\n" for text, _ in texts.QUESTIONS)
    out, _, _, _ = setup.unmask.compute(
        "text", "--model", setup.folder, "--prompts", "-", "-n", str(len(texts.QUESTIONS)),
        "--sampler", "greedy(confidence)", "--steps", "1", "--cache=0", "--json", stdin=lines)
    answers = sorted((json.loads(line) for line in out.splitlines()), key=lambda a: a["id"])
    right, said = 0, []
    for (text, wanted), answer in zip(texts.QUESTIONS, answers):
        word = answer["text"].lower()[len(text):].strip(" .")
        said.append(word)
        right += word in wanted
    return {"right": right, "of": len(texts.QUESTIONS), "said": said}


def measure_perplexity(setup):
    """Generative perplexity of 64 texts by GPT-2 large, never without their entropy."""
    judge = setup.unmask.pull("openai-community/gpt2-large")
    found = {}
    for steps in (32, 64):
        folder = setup.path(f"texts-{steps}.jsonl")
        setup.unmask.compute("text", "--model", setup.folder, "-n", "64", "--steps", str(steps),
                             "--seed", "1", "--out", folder)
        out, _, _, _ = setup.unmask.compute("eval", "text", folder, "--judge", judge, "--json")
        metrics = json.loads(out)["metrics"]
        found[str(steps)] = {name: metrics[name]["value"] for name in ("perplexity", "entropy")
                             if name in metrics}
    return found


# ------------------------------------------------------------------ pictures


def measure_pictures(setup):
    """A model of pictures: logits of random codes with classes, or with states of a prompt."""
    sizes = setup.facts["sizes"]
    g = np.random.default_rng(1)
    tokens = mask_batches(random_batches(setup), sizes["mask"])[0].astype(np.int64)
    batch = {"tokens": tokens}
    if "classes" in sizes:
        batch["labels"] = g.integers(0, sizes["classes"], len(tokens))
    if setup.model.peer == "amused":
        with open(os.path.join(setup.folder, "transformer", "config.json")) as f:
            config = json.load(f)
        numbers = config["micro_cond_embed_dim"] // config["micro_cond_encode_dim"]
        batch["text_before_last"] = g.normal(size=(len(tokens), 77, config["encoder_hidden_size"]))
        batch["text_pooled"] = g.normal(size=(len(tokens), config["cond_embed_dim"]))
        batch["micro"] = np.tile([256, 256, 0, 0, 6], (len(tokens), 1))[:, :numbers]
        batch["null_before_last"] = np.zeros_like(batch["text_before_last"][:1])
        batch["null_pooled"] = np.zeros_like(batch["text_pooled"][:1])
        batch.update({name: a.astype(np.float32) for name, a in batch.items() if name not in ("tokens", "labels")})
    return measure_logits(setup, [batch])


# ------------------------------------------------------------------- vectors


def measure_vectors(setup):
    """A model of vectors: 2,000 varied texts, and the nearest neighbours of 200 of them."""
    lines = texts.varied(setup.options.vectors)
    with open(setup.path("texts.txt"), "w") as f:
        f.write("\n".join(lines) + "\n")
    peer = setup.run_peer(setup.path("texts.txt"), setup.path("theirs.safetensors"))
    theirs = np.array(tensors.read(setup.path("theirs.safetensors"))["embeddings"])
    result = {"peer": peer, "texts": len(lines), "vectors": {}}
    for precision in PRECISIONS:
        _, said, seconds, memory = setup.unmask.compute(
            "embed", setup.path("texts.txt"), "--model", setup.folder, "--precision", precision,
            "--out", setup.path("ours.safetensors"))
        ours = np.array(tensors.read(setup.path("ours.safetensors"))["embeddings"])
        result["vectors"][precision] = {"difference": float(np.abs(ours - theirs).max()),
                                        "ranks": compare_ranks(ours, theirs), "seconds": seconds}
        if precision == "f32":
            result["seconds"], result["memory"], result["notes"] = seconds, memory, said.splitlines()[-3:]
    return result


def compare_ranks(ours, theirs, queries=200, nearest=10, margin=1e-5):
    """The share of queries whose nearest neighbours come in the same order, where the peer's scores
    differ by more than the margin."""
    count = min(queries, len(ours) // 2)
    same = 0
    for i in range(count):
        scores_ours, scores_theirs = ours @ ours[i], theirs @ theirs[i]
        scores_ours[i] = scores_theirs[i] = -np.inf
        order = np.argsort(-scores_theirs, kind="stable")[:nearest]
        fits = all(scores_ours[a] > scores_ours[b] for a, b in zip(order, order[1:])
                   if scores_theirs[a] - scores_theirs[b] > margin)
        same += fits
    return same / count


# --------------------------------------------------------- decisions, speech


def measure_decisions(setup):
    """A model of typed decisions: how many of ten questions with known answers are right."""
    lines = ""
    for state, question, labels, _ in texts.DECISIONS:
        lines += json.dumps({"state": state, "questions": {"q": {
            "type": "choice", "instructions": question, "criteria": dict.fromkeys(labels)}}}) + "\n"
    out, _, seconds, memory = setup.unmask.compute("decide", "--model", setup.folder, "--inputs", "-",
                                                   stdin=lines)
    right = 0
    for line, (_, _, _, wanted) in zip(out.splitlines(), texts.DECISIONS):
        right += json.loads(line)["answers"]["q"]["choice"] == wanted
    return {"questions": {"right": right, "of": len(texts.DECISIONS)}, "seconds": seconds, "memory": memory}


def measure_speech(setup):
    """A model of speech: a sentence is spoken; its sound is as long as such a sentence takes."""
    path = setup.path("speech.wav")
    _, _, seconds, memory = setup.unmask.compute("speech", "--model", setup.folder, "--text", texts.ENGLISH[0],
                                                 "--out", path)
    with wave.open(path) as sound:
        spoken = sound.getnframes() / sound.getframerate()
    return {"sound_seconds": spoken, "seconds": seconds, "memory": memory}


MEASURES = {"tokens": measure_tokens, "pictures": measure_pictures, "vectors": measure_vectors,
            "decisions": measure_decisions, "speech": measure_speech}
