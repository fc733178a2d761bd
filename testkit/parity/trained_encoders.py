"""Writes the logits of the trained encoders that packages carry, as PyTorch computes them.

    python3 trained_encoders.py FOLDER OUT.json

FOLDER has the unpacked packages antiberty 0.1.3, sapiens 1.0.5 and rxnmapper 0.4.3, as
research/trained/trained.py fetches them. OUT.json gets, for each model, the tokens of one sequence
with masks and the float32 logits of three of its masked rows: facts that families/encoders/trained_test.go
compares with. Needs torch and transformers; fairseq is not needed, its RoBERTa is transformers' under
other names.
"""
import argparse, json, os
import torch
from transformers import (AlbertConfig, AlbertForMaskedLM, BertConfig, BertForMaskedLM, RobertaConfig,
                          RobertaForMaskedLM)

TRASTUZUMAB = ("EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYC"
               "SRWGGDGFYAMDYWGQGTLVTVSS")
TRASTUZUMAB_LIGHT = ("DIQMTQSPSSLSASVGDRVTITCRASQDVNTAVAWYQQKPGKAPKLLIYSASFLYSGVPSRFSGSRSGTDFTLTISSLQPEDFATYYC"
                     "QQHYTTPPTFGQGTKVEIK")
ESTER = "CC(=O)O.OCC>>CC(=O)OCC.O"


def transformers_name(name):
    """transformers' name of a tensor of fairseq's RoBERTa."""
    for old, new in [("decoder.sentence_encoder.embed_tokens", "roberta.embeddings.word_embeddings"),
                     ("decoder.sentence_encoder.embed_positions", "roberta.embeddings.position_embeddings"),
                     ("decoder.sentence_encoder.emb_layer_norm", "roberta.embeddings.LayerNorm"),
                     ("decoder.sentence_encoder.layers", "roberta.encoder.layer"),
                     ("self_attn.q_proj", "attention.self.query"), ("self_attn.k_proj", "attention.self.key"),
                     ("self_attn.v_proj", "attention.self.value"),
                     ("self_attn.out_proj", "attention.output.dense"),
                     ("self_attn_layer_norm", "attention.output.LayerNorm"), ("fc1", "intermediate.dense"),
                     ("fc2", "output.dense"), ("final_layer_norm", "output.LayerNorm"),
                     ("decoder.lm_head.weight", "lm_head.decoder.weight"), ("decoder.lm_head", "lm_head")]:
        name = name.replace(old, new)
    return name


def transformer(folder, config_class, net_class, **changes):
    settings = {**json.load(open(os.path.join(folder, "config.json"))), **changes}
    net = net_class(config_class(**settings))
    put(net, torch.load(os.path.join(folder, "pytorch_model.bin"), map_location="cpu"))
    return net.eval()


def put(net, state):
    """Loads a state dict, whose further heads and positions the network may lack."""
    missing, _ = net.load_state_dict(state, strict=False)
    assert not [m for m in missing if "position_ids" not in m and "decoder.bias" not in m
                and "token_type" not in m], missing


def sapiens(file):
    with torch.serialization.safe_globals([argparse.Namespace]):
        saved = torch.load(file, map_location="cpu")
    state = {transformers_name(k): v for k, v in saved["model"].items()}
    words, width = state["roberta.embeddings.word_embeddings.weight"].shape
    positions = state["roberta.embeddings.position_embeddings.weight"].shape[0]
    net = RobertaForMaskedLM(RobertaConfig(
        vocab_size=words, hidden_size=width, num_hidden_layers=saved["args"].encoder_layers,
        num_attention_heads=saved["args"].encoder_attention_heads,
        intermediate_size=saved["args"].encoder_ffn_embed_dim, max_position_embeddings=positions,
        type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, tie_word_embeddings=False))
    put(net, state)
    net.roberta.embeddings.token_type_embeddings.weight.data.zero_()
    net.lm_head.decoder.bias = net.lm_head.bias
    return net.eval()


def models(folder):
    """Yields each model's name, network, list of words, and text as words."""
    import re
    at = lambda *parts: os.path.join(folder, *parts)
    words = lambda file: open(file).read().split()
    home = at("antiberty", "trained_models")
    yield ("antiberty", transformer(os.path.join(home, "AntiBERTy_md_smooth"), BertConfig, BertForMaskedLM),
           words(os.path.join(home, "vocab.txt")), list(TRASTUZUMAB))
    home = at("sapiens", "models", "v1")
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *words(os.path.join(home, "dict.txt"))[::2], "<mask>"]
    for chain, text in ("h", TRASTUZUMAB), ("l", TRASTUZUMAB_LIGHT):
        yield "sapiens-" + chain, sapiens(os.path.join(home, f"checkpoint_v{chain}.pt")), vocabulary, list(text)
    home = at("rxnmapper", "models", "transformers", "albert_heads_8_uspto_all_1310k")
    yield ("rxnmapper", transformer(home, AlbertConfig, AlbertForMaskedLM),
           words(os.path.join(home, "vocab.txt")), re.findall(r"Cl?|O|\(|\)|=|\.|>>", ESTER))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("out")
    a = p.parse_args()
    facts = {}
    for name, net, vocabulary, text in models(a.folder):
        first, last, mask = ("<s>", "</s>", "<mask>") if "<s>" in vocabulary else ("[CLS]", "[SEP]", "[MASK]")
        text = [mask if i % 3 == 1 else t for i, t in enumerate(text)]
        tokens = [vocabulary.index(t) for t in [first, *text, last]]
        with torch.no_grad():
            logits = net(torch.tensor([tokens]), attention_mask=torch.ones(1, len(tokens))).logits[0]
        rows = [i for i, t in enumerate(tokens) if t == vocabulary.index(mask)]
        rows = [rows[0], rows[len(rows) // 2], rows[-1]]
        columns = list(range(len(vocabulary)))[:60]
        facts[name] = {"tokens": tokens, "rows": rows, "largest": round(logits.abs().max().item(), 4),
                       "logits": [[round(logits[r, c].item(), 6) for c in columns] for r in rows]}
    with open(a.out, "w") as f:
        json.dump(facts, f, indent=None, separators=(",", ":"))
        f.write("\n")
