"""Writes testdata/packs/embed-{bert,roberta,modernbert}-tiny: folders that sentence-transformers saved, with
random weights, and in cases.json what its encode() returns for some texts.

    pip install sentence-transformers==6.2.0
    python make_packs_embed.py OUT
"""

import json
import os
import sys
import tempfile

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (BertConfig, BertModel, BertTokenizerFast, ModernBertConfig, ModernBertModel,
                          PreTrainedTokenizerFast, RobertaConfig, RobertaModel)

TEXTS = ["the dog sat on the mat", "a cat", "The DOG, the cat. And more: " * 4, "x", "caf\u00e9 it is", "", " two  blanks "]


def large(model):
    """Weights of a size at which every part of the network shows in the vectors."""
    torch.manual_seed(5)
    for name, p in model.named_parameters():
        if p.dim() > 1:
            p.data.normal_(0, 0.4)
        elif name.endswith("bias"):
            p.data.normal_(0, 0.1)
    return model


def words():
    list_ = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "cat", "sat", "on", "mat", ".", ",", ":"]
    for c in "abcdefghijklmnopqrstuvwxyz":
        list_ += [c, "##" + c]
    return BertTokenizerFast(vocab={w: i for i, w in enumerate(list_)}), len(list_)


def letters(roles):
    """A byte-level tokenizer of single bytes, whose special tokens are roles."""
    vocab = {t: i for i, t in enumerate(roles.values())}
    for b in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[b] = len(vocab)
    t = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    a, b = roles["cls_token"], roles["sep_token"]
    t.post_processor = processors.TemplateProcessing(single=f"{a} $A {b}", pair=f"{a} $A {b} $B {b}",
                                                     special_tokens=[(a, vocab[a]), (b, vocab[b])])
    return PreTrainedTokenizerFast(tokenizer_object=t, **roles), len(vocab)


def write(out, name, network, tokenizer, modules, prompts, old=False, **more):
    base = tempfile.mkdtemp()
    network.save_pretrained(base)
    tokenizer.save_pretrained(base)
    model = SentenceTransformer(modules=[Transformer(base, max_seq_length=24, **more), *modules], prompts=prompts)
    folder = os.path.join(out, name)
    model.save(folder)
    os.remove(os.path.join(folder, "README.md"))
    if old:  # as versions before 6 wrote them
        with open(os.path.join(folder, "sentence_bert_config.json"), "w") as f:
            json.dump({"max_seq_length": 20, "do_lower_case": True}, f)
        with open(os.path.join(folder, "1_Pooling", "config.json"), "w") as f:
            flags = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": False,
                     "pooling_mode_mean_sqrt_len_tokens": True, "pooling_mode_weightedmean_tokens": True,
                     "pooling_mode_lasttoken": False}
            json.dump({"word_embedding_dimension": 8, **flags}, f)
        modules_file = os.path.join(folder, "modules.json")
        with open(modules_file) as f:
            list_ = json.load(f)
        for m in list_:
            m["type"] = "sentence_transformers.models." + m["type"].split(".")[-1]
        with open(modules_file, "w") as f:
            json.dump(list_, f)
    model = SentenceTransformer(folder)
    cases = []
    for prompt in [None, *[p for p in prompts if prompts[p]]]:
        vectors = model.encode(TEXTS, prompt_name=prompt, convert_to_numpy=True)
        cases.append({"prompt": prompt or "", "vectors": [[float(f"{x:.8g}") for x in v.tolist()] for v in vectors]})
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump({"texts": TEXTS, "cases": cases}, f)


def main(out):
    os.makedirs(out, exist_ok=True)
    sizes = dict(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12)
    tokenizer, n = words()
    torch.manual_seed(1)
    write(out, "embed-bert-tiny", large(BertModel(BertConfig(vocab_size=n, max_position_embeddings=32, **sizes))), tokenizer,
          [Pooling(8, pooling_mode="mean", include_prompt=False), Dense(8, 6), Normalize()],
          {"query": "the query: ", "document": ""})
    roles = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}
    tokenizer, n = letters(roles)
    write(out, "embed-roberta-tiny", large(RobertaModel(RobertaConfig(
        vocab_size=n, max_position_embeddings=34, type_vocab_size=1, pad_token_id=1, **sizes))), tokenizer,
        [Pooling(8, pooling_mode="cls")], {}, old=True)
    roles = {"cls_token": "[CLS]", "pad_token": "[PAD]", "sep_token": "[SEP]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    tokenizer, n = letters(roles)
    write(out, "embed-modernbert-tiny", large(ModernBertModel(ModernBertConfig(
        vocab_size=n, max_position_embeddings=64, local_attention=8, pad_token_id=1, cls_token_id=0, sep_token_id=2,
        bos_token_id=0, eos_token_id=2, global_attn_every_n_layers=2, attn_implementation="eager", **sizes))), tokenizer,
        [Pooling(8, pooling_mode=("max", "lasttoken"))], {"ask": "Q: "})


if __name__ == "__main__":
    main(sys.argv[1])
