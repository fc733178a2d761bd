"""Writes the parity packs of masked encoders: BERT, RoBERTa (both spellings of its names), ALBERT,
ESM-2 and ModernBERT with random weights, and the float64 answers of transformers' own classes.

    python3 make_packs_encoders.py OUTDIR [--scale tiny|small|150m] [--only NAME] [--seed 0] [--initial]

A pack is a folder in the published format (config.json, model.safetensors, vocab.txt) with
cases.safetensors beside it. The answer of a partial pass is a pass over the new tokens in which the
keys and values of all other rows are those of the first pass: hooks put them there.
Needs torch, transformers and, for writing, make_packs.py.
"""
import argparse, os
import torch
from transformers import (AlbertConfig, AlbertForMaskedLM, BertConfig, BertForMaskedLM, EsmConfig,
                          EsmForMaskedLM, ModernBertConfig, ModernBertForMaskedLM, RobertaConfig,
                          RobertaForMaskedLM)
import make_packs as M

RESIDUES = list("ACDEFGHIKLMNPQRSTVWY")
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + RESIDUES
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>"] + RESIDUES + ["<mask>"]
ESM = ["<cls>", "<pad>", "<eos>", "<unk>"] + list("LAGVSERTIDPKQNFYMHWCXBUZO.-") + ["<null_1>", "<mask>"]
SIZES = {"tiny": (32, 3, 4, 48), "small": (128, 4, 8, 320), "150m": (640, 30, 20, 2560)}  # ESM-2's
BASE = (768, 22, 12, 1152)  # ModernBERT-base's


def bert(size):
    hidden, layers, heads, inner = size
    return dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                intermediate_size=inner, hidden_act="gelu", layer_norm_eps=1e-12,
                max_position_embeddings=64, type_vocab_size=2, vocab_size=len(BERT), pad_token_id=0)


def roberta(size):
    return {**bert(size), "layer_norm_eps": 1e-5, "max_position_embeddings": 66,
            "type_vocab_size": 1, "vocab_size": len(FAIRSEQ), "pad_token_id": 1}


def albert(size):
    return {**bert(size), "embedding_size": 24, "hidden_act": "gelu_new", "num_hidden_groups": 2,
            "num_hidden_layers": 4, "inner_group_num": 2}


def esm(size):
    return {**bert(size), "layer_norm_eps": 1e-5, "vocab_size": len(ESM), "pad_token_id": 1,
            "mask_token_id": 32, "position_embedding_type": "rotary", "token_dropout": True,
            "emb_layer_norm_before": False, "max_position_embeddings": 64}


def modernbert(size):
    hidden, layers, heads, inner = size
    return dict(hidden_size=hidden, num_hidden_layers=max(4, layers), num_attention_heads=heads,
                intermediate_size=inner, hidden_activation="gelu", norm_eps=1e-5, norm_bias=False,
                attention_bias=False, mlp_bias=False, classifier_bias=False, decoder_bias=True,
                global_attn_every_n_layers=3, local_attention=16, global_rope_theta=160000.0,
                local_rope_theta=10000.0, max_position_embeddings=64, vocab_size=40,
                pad_token_id=0, mask_token_id=4, cls_token_id=1, sep_token_id=2, bos_token_id=1,
                eos_token_id=2)


def fairseq_name(name):
    """The name in fairseq's checkpoints of a tensor of transformers' RoBERTa."""
    for old, new in [("roberta.embeddings.word_embeddings", "decoder.sentence_encoder.embed_tokens"),
                     ("roberta.embeddings.position_embeddings", "decoder.sentence_encoder.embed_positions"),
                     ("roberta.embeddings.LayerNorm", "decoder.sentence_encoder.emb_layer_norm"),
                     ("roberta.encoder.layer", "decoder.sentence_encoder.layers"),
                     ("attention.self.query", "self_attn.q_proj"), ("attention.self.key", "self_attn.k_proj"),
                     ("attention.self.value", "self_attn.v_proj"),
                     ("attention.output.dense", "self_attn.out_proj"),
                     ("attention.output.LayerNorm", "self_attn_layer_norm"), ("intermediate.dense", "fc1"),
                     ("output.dense", "fc2"), ("output.LayerNorm", "final_layer_norm"),
                     ("lm_head", "decoder.lm_head")]:
        name = name.replace(old, new)
    return name


# name: configuration, class of configuration, class of network, vocabulary, model_type
PACKS = {
    "bert-tiny": (bert, BertConfig, BertForMaskedLM, BERT, "bert"),
    "roberta-tiny": (roberta, RobertaConfig, RobertaForMaskedLM, FAIRSEQ, "roberta"),
    "roberta-fairseq-tiny": (roberta, RobertaConfig, RobertaForMaskedLM, FAIRSEQ, ""),
    "albert-tiny": (albert, AlbertConfig, AlbertForMaskedLM, BERT, "albert"),
    "esm-tiny": (esm, EsmConfig, EsmForMaskedLM, ESM, "esm"),
    "modernbert-tiny": (modernbert, ModernBertConfig, ModernBertForMaskedLM, None, "modernbert"),
}
# the first and last token of a sequence and the mask, by model_type
SPECIAL = {"bert": (2, 3, 4), "albert": (2, 3, 4), "roberta": (0, 2, 24), "": (0, 2, 24),
           "esm": (0, 2, 32), "modernbert": (1, 2, 4)}
KEYS = ("attention.self.key", "attention.self.value", "attention.key", "attention.value", "attn.Wqkv")


def randomise(net, g):
    """Weights large enough that every part of the network shows in the logits."""
    for name, p in net.named_parameters():
        if p.dim() == 1:
            p.data = (1 if "orm" in name and name.endswith("weight") else 0) + M.rnd(g, *p.shape, std=0.2)
        else:
            p.data = M.rnd(g, *p.shape, std=0.7 if "embedding" in name else 1.5 * p.shape[1] ** -0.5)


class Keys:
    """Hooks on the layers that make keys and values: they record their outputs, then replace them."""

    def __init__(self, net):
        self.kept, self.rows, self.at = [], None, 0
        for name, module in net.named_modules():
            if name.endswith(KEYS):
                module.register_forward_hook(self.hook)

    def hook(self, _module, _inputs, output):
        if self.rows is None:
            self.kept.append(output.clone())
            return output
        old = self.kept[self.at].clone()
        self.at += 1
        old[:, self.rows] = output[:, self.rows]
        return old


def write(out, name, scale, seed, initial):
    settings, config_class, net_class, vocabulary, kind = PACKS[name]
    g = torch.Generator().manual_seed(sum(name.encode()) + 10007 * seed)
    c = settings(BASE if scale == "150m" and settings is modernbert else SIZES[scale])
    torch.manual_seed(seed)
    net = net_class(config_class(**c, attn_implementation="eager")).eval()
    if not initial:
        randomise(net, g)
    if net.get_output_embeddings().weight is not net.get_input_embeddings().weight:
        net.get_output_embeddings().weight = net.get_input_embeddings().weight
    weights = {k: v.float().clone() for k, v in net.state_dict().items()
               if v.is_floating_point() and "inv_freq" not in k}
    for tied in ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "lm_head.decoder.bias",
                 "predictions.decoder.bias", "decoder.weight"]:
        weights.pop(tied, None)
    if kind == "":
        weights = {fairseq_name(k): v for k, v in weights.items() if "token_type" not in k}
        weights["decoder.lm_head.weight"] = weights.pop("decoder.lm_head.decoder.weight")
        zero = net.roberta.embeddings.token_type_embeddings.weight  # fairseq has no token types
        zero.data = torch.zeros_like(zero)
    first, last, mask = SPECIAL[kind]
    full = torch.randint(5, c["vocab_size"] - (3 if vocabulary is ESM else 1), (3, 37), generator=g)
    full[:, 0], full[:, -1] = first, last
    tokens = M.masked(g, full, mask, 0.5)
    tokens[:, 0], tokens[:, -1] = first, last
    tokens[2, 1:-1] = mask
    run = lambda t: net(t, attention_mask=torch.ones_like(t)).logits
    one = tokens[:1]
    rows = torch.nonzero(one[0] == mask).flatten()
    rows = rows[torch.randperm(len(rows), generator=g)[:8]].sort().values
    after = one.clone()
    after[0, rows[::2]] = full[0, rows[::2]]
    with torch.no_grad():
        single = run(tokens)
        net = net.double()
        logits, short, exact = run(tokens), run(tokens[:, :20]), run(after)[:, rows]
        keys = Keys(net)
        run(one)
        keys.rows = rows
        partial = run(after)[:, rows]
    rounding = ((single - logits).abs().max() / logits.abs().max()).float()  # of transformers in float32
    cases = {"tokens": tokens, "logits": logits.float(), "short_tokens": tokens[:, :20],
             "short_logits": short.float(), "rounding": rounding[None]}
    if "local_attention" in c:
        cases["window"] = torch.tensor([c["local_attention"]])
    if not name.startswith("esm"):  # its rows depend on the number of masks
        cases.update({"partial_rows": rows, "partial_tokens": after, "partial_logits": partial.float(),
                      "partial_exact_logits": exact.float()})
    if kind:
        c = {"model_type": kind, "architectures": [net_class.__name__], **c}
    name = name.replace("tiny", scale)
    M.pack(out, name, c, weights, cases)
    if vocabulary:
        with open(os.path.join(out, name, "vocab.txt"), "w") as f:
            f.write("\n".join(vocabulary) + "\n")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--scale", default="tiny", choices=SIZES)
    p.add_argument("--only", default="")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--initial", action="store_true", help="the weights that training starts from, not larger ones")
    a = p.parse_args()
    for name in PACKS:
        if name.startswith(a.only):
            write(a.out, name, a.scale, a.seed, a.initial)
