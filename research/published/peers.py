"""What somebody else's program computes of the same weights, for published.py to compare with.

    python3 peers.py PEER FOLDER INPUT OUTPUT [--threads N]

INPUT and OUTPUT are safetensors of tokens and logits, or for `sentences` a file of texts, one a line,
and their vectors. One line of JSON on standard output has the seconds of loading and computing, the largest
resident memory in bytes and the versions of what ran. A peer runs in a process of its own, so that
its packages are needed only where its models are asked for.
"""
import argparse
import glob
import json
import os
import pickle
import resource
import sys
import time
import types

import numpy as np

import tensors

PARITY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testkit", "parity")


def load_state(folder):
    """The weights of a folder as float32 tensors of torch by name."""
    import torch
    from safetensors.torch import load_file
    state = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        state.update(load_file(path))
    if not state:
        path = glob.glob(os.path.join(folder, "*.bin")) + glob.glob(os.path.join(folder, "*.pt*"))
        state = torch.load(path[0], map_location="cpu", weights_only=True)
    return {name: value.float() for name, value in state.items() if value.is_floating_point()}


def without_prefix(state, ending):
    """Renames weights so that the one that ends in `ending` has that name."""
    name = next(n for n in state if n.endswith(ending))
    prefix = name[:-len(ending)]
    return {n[len(prefix):]: v for n, v in state.items() if n.startswith(prefix)}


def read_config(folder):
    with open(os.path.join(folder, "config.json")) as f:
        return json.load(f)


def dit(folder, heads):
    """SDTT's and MDLM's network, in plain PyTorch."""
    sys.path.insert(0, PARITY)
    import reference
    weights = without_prefix(load_state(folder), "vocab_embed.embedding")
    return lambda inputs: reference.dit(weights, inputs["tokens"], heads)


def masked(folder, heads):
    """transformers' class for masked tokens that config.json names."""
    from transformers import AutoModelForMaskedLM
    net = AutoModelForMaskedLM.from_pretrained(folder).eval().float()
    return lambda inputs: net(inputs["tokens"]).logits


def esmc(folder, heads):
    """transformers' ESM-C."""
    from transformers import EsmcForMaskedLM
    net = EsmcForMaskedLM.from_pretrained(folder).eval().float()
    return lambda inputs: net(inputs["tokens"]).logits


class SettingsReader(pickle.Unpickler):
    """Reads a checkpoint of Lightning without the classes of its settings, whose place an empty one takes."""
    PLAIN = ("set", "list", "dict", "int", "float", "bool", "str", "slice")

    def find_class(self, module, name):
        if module.partition(".")[0] in ("torch", "collections") or module == "builtins" and name in self.PLAIN:
            return super().find_class(module, name)
        return type(name, (), {"__init__": lambda self, *_: None, "__setstate__": lambda self, _: None})


def genmol(folder, heads):
    """transformers' BERT with the averaged weights of GenMol's checkpoint."""
    import torch
    from transformers import BertConfig, BertForMaskedLM
    path = glob.glob(os.path.join(folder, "*.ckpt"))[0]
    reader = types.SimpleNamespace(Unpickler=SettingsReader, __name__="reader")
    saved = torch.load(path, map_location="cpu", weights_only=False, pickle_module=reader)
    averaged = iter(saved["ema"]["shadow_params"])
    state, seen = {}, {}
    for name, value in saved["state_dict"].items():
        place = value.data_ptr()
        if place not in seen:  # the head's matrix and bias have two names each
            seen[place] = next(averaged)
        state[name.removeprefix("backbone.")] = seen[place].float()
    words = state["bert.embeddings.word_embeddings.weight"]
    layers = 1 + max(int(n.split(".")[3]) for n in state if n.startswith("bert.encoder.layer."))
    config = BertConfig(vocab_size=words.shape[0], hidden_size=words.shape[1], num_hidden_layers=layers,
                        num_attention_heads=heads,
                        intermediate_size=len(state["bert.encoder.layer.0.intermediate.dense.bias"]),
                        max_position_embeddings=len(state["bert.embeddings.position_embeddings.weight"]),
                        layer_norm_eps=1e-12)
    net = BertForMaskedLM(config).eval().float()
    net.load_state_dict(state, strict=False)
    return lambda inputs: net(inputs["tokens"]).logits


def qwen3(folder, heads):
    """transformers' Qwen3, whose positions all see each other."""
    import torch
    from transformers import AutoConfig, Qwen3ForCausalLM
    settings = read_config(folder)
    for key in ("model_type", "auto_map", "architectures"):
        settings.pop(key, None)
    net = Qwen3ForCausalLM.from_pretrained(folder, config=AutoConfig.for_model("qwen3", **settings))
    net = net.eval().float()

    def compute(inputs):
        tokens = inputs["tokens"]
        rows = tokens.shape[1]
        everything = torch.zeros(len(tokens), 1, rows, rows)
        return net(tokens, attention_mask=everything, use_cache=False).logits
    return compute


def remote(repository, heads):
    """The class that a repository brings along; its code is downloaded and runs."""
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM
    name, _, revision = repository.partition("@")
    where = {"revision": revision or "main", "trust_remote_code": True}
    classes = getattr(AutoConfig.from_pretrained(name, **where), "auto_map", {})
    loader = next(c for c in (AutoModelForMaskedLM, AutoModelForCausalLM, AutoModel)
                  if c.__name__ in classes or c is AutoModel)
    net = loader.from_pretrained(name, **where).eval().float()
    return lambda inputs: net(inputs["tokens"]).logits


def package(folder, heads):
    """The encoders that packages carry: a folder of transformers, or fairseq's RoBERTa in one file."""
    if os.path.isdir(folder):
        return package_folder(folder)
    sys.path.insert(0, PARITY)
    import trained_encoders
    net = trained_encoders.sapiens(folder)
    return lambda inputs: net(inputs["tokens"]).logits


def package_folder(folder):
    sys.path.insert(0, PARITY)
    import trained_encoders
    import transformers
    name = "Albert" if read_config(folder).get("model_type") == "albert" else "Bert"
    net = trained_encoders.transformer(folder, getattr(transformers, name + "Config"),
                                       getattr(transformers, name + "ForMaskedLM"))
    return lambda inputs: net(inputs["tokens"]).logits


def halton(folder, heads):
    """Halton-MaskGIT's network, in plain PyTorch."""
    import torch
    sys.path.insert(0, PARITY)
    import reference_image
    if os.path.isdir(folder):
        weights = load_state(folder)
    else:
        saved = torch.load(folder, map_location="cpu", weights_only=True)
        saved = saved.get("model_state_dict", saved)
        weights = {n.removeprefix("module."): v.float() for n, v in saved.items() if v.is_floating_point()}
    return lambda inputs: reference_image.halton_maskgit(weights, inputs["tokens"], inputs["labels"], heads)


def mage(folder, heads):
    """MAGE's network, in plain PyTorch."""
    sys.path.insert(0, PARITY)
    import reference
    weights = load_state(folder)
    config = read_config(folder)
    return lambda inputs: reference.mage(weights, inputs["tokens"], heads, config["decoder_num_heads"],
                                         config["codebook_size"])


def titok(folder, heads):
    """TiTok's generator, in plain PyTorch."""
    sys.path.insert(0, PARITY)
    import reference_image
    weights = load_state(folder)
    is_uvit = read_config(folder)["model"]["generator"].get("model_type", "ViT") == "UViT"
    compute = reference_image.titok_uvit if is_uvit else reference_image.titok_bert
    return lambda inputs: compute(weights, inputs["tokens"], inputs["labels"], heads)


def amused(folder, heads):
    """diffusers' network of aMUSEd."""
    from diffusers import UVit2DModel
    net = UVit2DModel.from_pretrained(os.path.join(folder, "transformer")).eval().float()

    def compute(inputs):
        side = round(inputs["tokens"].shape[1] ** 0.5)
        grid = inputs["tokens"].view(-1, side, side)
        logits = net(grid, encoder_hidden_states=inputs["text_before_last"],
                     pooled_text_emb=inputs["text_pooled"], micro_conds=inputs["micro"])
        return logits.flatten(2).transpose(1, 2)
    return compute


def largest_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_tokens(peer, folder, heads, source, output):
    """Computes the logits of batches: a file has tokens.0, tokens.1 and so on, and what goes with each,
    such as labels.0."""
    import torch
    began = time.time()
    compute = peer(folder, heads)
    loaded = time.time()
    batches = {}
    for name, array in tensors.read(source).items():
        kind, number = name.rsplit(".", 1)
        batches.setdefault(number, {})[kind] = torch.from_numpy(array.copy())
    with torch.inference_mode():
        results = {"logits." + number: compute(batch).float().numpy() for number, batch in batches.items()}
    computed = time.time()
    tensors.write(output, results)
    return loaded - began, computed - loaded


def run_greedy(peer, folder, heads, source, output):
    """Fills the masks of each batch one by one, the surest position first with its most probable token.
    Special tokens are never drawn, nor in a protein anything but letters of residues, B, U, Z and O among
    them."""
    import torch
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    mask = tokenizer.mask_token_id
    is_protein = read_config(folder)["model_type"] in ("esm", "esmc")
    drawn = [i for word, i in tokenizer.get_vocab().items() if i not in tokenizer.all_special_ids
             and (not is_protein or word in "LAGVSERTIDPKQNFYMHWCBUZO")]
    began = time.time()
    compute = peer(folder, heads)
    loaded = time.time()
    results = {}
    with torch.inference_mode():
        for name, array in tensors.read(source).items():
            tokens = torch.from_numpy(array.copy())
            while (tokens == mask).any():
                logits = compute({"tokens": tokens})[0]
                allowed = torch.full_like(logits, -torch.inf)
                allowed[:, drawn] = logits[:, drawn]
                surest = allowed.softmax(-1).max(-1)
                position = torch.where(tokens[0] == mask, surest.values, -1.0).argmax()
                tokens[0, position] = surest.indices[position]
            results[name] = tokens.numpy()
    computed = time.time()
    tensors.write(output, results)
    return loaded - began, computed - loaded


def run_sentences(folder, source, output):
    """Computes the vectors of the lines of a file."""
    from sentence_transformers import SentenceTransformer
    began = time.time()
    net = SentenceTransformer(folder, device="cpu")
    loaded = time.time()
    with open(source) as f:
        texts = f.read().split("\n")[:-1]
    vectors = net.encode(texts, batch_size=32, show_progress_bar=False)
    computed = time.time()
    tensors.write(output, {"embeddings": np.asarray(vectors, np.float32)})
    return loaded - began, computed - loaded


def versions():
    """The versions of the packages that are loaded."""
    names = ("torch", "transformers", "sentence_transformers", "diffusers", "numpy")
    return {n: sys.modules[n].__version__ for n in names if n in sys.modules}


PEERS = {f.__name__: f for f in (dit, masked, esmc, genmol, qwen3, remote, package, halton, mage, titok, amused)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("peer", choices=[*PEERS, "sentences"])
    p.add_argument("folder")
    p.add_argument("input")
    p.add_argument("output")
    p.add_argument("--heads", type=int, default=0, help="attention heads, where the weights do not say")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--greedy", action="store_true", help="fill the masks, instead of writing logits")
    o = p.parse_args()
    import torch
    if o.threads:
        torch.set_num_threads(o.threads)
    if o.peer == "sentences":
        load, compute = run_sentences(o.folder, o.input, o.output)
    else:
        work = run_greedy if o.greedy else run_tokens
        load, compute = work(PEERS[o.peer], o.folder, o.heads, o.input, o.output)
    print(json.dumps({"load_seconds": load, "seconds": compute, "memory": largest_memory(),
                      "versions": versions()}))


if __name__ == "__main__":
    main()
