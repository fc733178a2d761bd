"""Folders that the original classes save, with random weights and small tokenizers of our own."""
import json
import os
import string

import torch
import transformers as hf
from safetensors.torch import save_file
from tokenizers import (Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

CORPUS = ["the cat sat on the mat and the dog ran to the old red house by the sea",
          "a quick brown fox jumps over lazy dogs while seven wizards mix vexing potions",
          "who is there? it is I, said the small grey mouse; come in, come in!",
          "numbers such as 12, 345 and 6789 are words too: is 7 * 8 = 56?",
          "Once upon a time there was a girl who lived in a very big town near the hills"] * 3
CHAT = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and "
        "enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"]


def byte_level(first=None, last=None):
    """Byte-level BPE as the language models have it. first and last are tokens around a text."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS + [string.printable], trainers.BpeTrainer(
        vocab_size=300, special_tokens=SPECIAL, show_progress=False))
    if first or last:
        parts = [p for p in (first, "$A", last) if p]
        t.post_processor = processors.TemplateProcessing(single=" ".join(parts), special_tokens=[
            (p, t.token_to_id(p)) for p in (first, last) if p])
    return hf.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|endoftext|>",
                                      pad_token="<|endoftext|>", mask_token="<|mask|>",
                                      chat_template=CHAT)


def word_piece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=200, show_progress=False,
                          special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(s, t.token_to_id(s)) for s in ("[CLS]", "[SEP]")])
    return hf.PreTrainedTokenizerFast(tokenizer_object=t, cls_token="[CLS]", sep_token="[SEP]",
                                      unk_token="[UNK]", pad_token="[PAD]", mask_token="[MASK]")


def roberta():
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=250, show_progress=False,
                          special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"]))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return hf.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>",
                                      cls_token="<s>", sep_token="</s>", unk_token="<unk>",
                                      pad_token="<pad>", mask_token="<mask>")


def unigram():
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(
        vocab_size=180, unk_token="<unk>", show_progress=False,
        special_tokens=["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(s, t.token_to_id(s)) for s in ("[CLS]", "[SEP]")])
    return hf.PreTrainedTokenizerFast(tokenizer_object=t, cls_token="[CLS]", sep_token="[SEP]",
                                      unk_token="<unk>", pad_token="<pad>", mask_token="[MASK]")


def residues(folder):
    words = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO", ".", "-",
             "<null_1>", "<mask>"]
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/vocab.txt", "w") as f:
        f.write("\n".join(words))
    return hf.EsmTokenizer(folder + "/vocab.txt")


SMALL = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64, "max_position_embeddings": 256}
BERT = {**SMALL, "type_vocab_size": 2}

# name: tokenizer, class and its configuration
ENCODERS = {
    "bert": (word_piece, hf.BertForMaskedLM, hf.BertConfig, BERT),
    "roberta": (roberta, hf.RobertaForMaskedLM, hf.RobertaConfig,
                {**BERT, "pad_token_id": 1, "type_vocab_size": 1}),
    "albert": (unigram, hf.AlbertForMaskedLM, hf.AlbertConfig,
               {**BERT, "embedding_size": 24, "num_hidden_groups": 1}),
    "esm": (residues, hf.EsmForMaskedLM, hf.EsmConfig,
            {**SMALL, "position_embedding_type": "rotary", "token_dropout": True,
             "emb_layer_norm_before": False}),
    "modernbert": (word_piece, hf.ModernBertForMaskedLM, hf.ModernBertConfig,
                   {**SMALL, "global_attn_every_n_layers": 2, "local_attention": 16}),
}


def random_model(cls, config, seed):
    torch.manual_seed(seed)
    model = cls._from_config(config, attn_implementation="eager").float().eval()
    for p in model.parameters():  # logits that differ well
        torch.nn.init.normal_(p, std=0.25) if p.dim() > 1 else torch.nn.init.normal_(p, 1, 0.1)
    model.tie_weights()
    return model


def encoder(name, folder):
    """Saves a folder; returns its tokenizer and net, as rules.py has it."""
    make, cls, config, values = ENCODERS[name]
    tokenizer = make(folder) if name == "esm" else make()
    values = {**values, "vocab_size": len(tokenizer), "mask_token_id": tokenizer.mask_token_id,
              "pad_token_id": tokenizer.pad_token_id}
    if name == "modernbert":
        values.update(cls_token_id=tokenizer.cls_token_id, sep_token_id=tokenizer.sep_token_id,
                      bos_token_id=tokenizer.cls_token_id, eos_token_id=tokenizer.sep_token_id)
    model = random_model(cls, config(**values), 7)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer, lambda tokens: model(torch.tensor([tokens])).logits[0]


# name: trunk of transformers, what config.json says besides, and the tokens around a text
TRUNKS = {
    "llada": ("llama", {"model_type": "llada"}, None, None),
    "llada-bos": ("llama", {"model_type": "llada"}, "<|im_start|>", None),
    "dream": ("qwen2", {"model_type": "Dream", "architectures": ["DreamModel"]}, None, None),
    "qwen2-mdlm": ("qwen2", {"model_type": "a2d-qwen2"}, None, None),
    "qwen3-mdlm": ("qwen3", {"model_type": "a2d-qwen3"}, None, None),
    "qwen3-bd3lm": ("qwen3", {"model_type": "a2d-qwen3", "block_size": 8}, None, None),
    "sdar": ("qwen3", {"model_type": "sdar", "architectures": ["SDARForCausalLM"],
                       "block_size": 4}, None, None),
}
CLASSES = {"llama": (hf.LlamaForCausalLM, hf.LlamaConfig), "qwen2": (hf.Qwen2ForCausalLM,
           hf.Qwen2Config), "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config)}
LLADA = {"model.embed_tokens": "wte", "self_attn.q_proj": "q_proj", "self_attn.k_proj": "k_proj",
         "self_attn.v_proj": "v_proj", "self_attn.o_proj": "attn_out", "mlp.gate_proj": "ff_proj",
         "mlp.up_proj": "up_proj", "mlp.down_proj": "ff_out", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ff_norm", "model.norm": "ln_f", "lm_head": "ff_out",
         "model.layers": "blocks"}


def llada_name(name):
    """A Llama tensor's name in LLaDA's files (modeling_llada.py)."""
    for theirs, ours in LLADA.items():
        name = name.replace(theirs, ours)
    return "model.transformer." + name


def language_model(name, folder):
    """Saves a folder; returns its tokenizer and net(tokens, missing), whose attention is full or,
    with blocks, sees no later block; missing positions lack in the first block."""
    trunk, says, first, last = TRUNKS[name]
    cls, config = CLASSES[trunk]
    tokenizer = byte_level(first, last)
    values = {**SMALL, "vocab_size": len(tokenizer), "num_key_value_heads": 2, "head_dim": 12,
              "rope_theta": 10000.0, "tie_word_embeddings": False,
              "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    if trunk == "llama":
        values["num_key_value_heads"] = 4
    model = random_model(cls, config(**values), 11)
    tensors = {k: v.contiguous() for k, v in model.state_dict().items()}
    os.makedirs(folder, exist_ok=True)
    tokenizer.save_pretrained(folder)
    own = {**values, "rms_norm_eps": model.config.rms_norm_eps, **says,
           "mask_token_id": tokenizer.mask_token_id, "hidden_act": "silu"}
    if trunk == "llama":
        tensors = {llada_name(k): v for k, v in tensors.items()}
        own = {**says, "architectures": ["LLaDAModelLM"], "d_model": 48, "n_layers": 2, "n_heads": 4,
               "n_kv_heads": 4, "mlp_hidden_size": 64, "vocab_size": len(tokenizer),
               "embedding_size": len(tokenizer), "max_sequence_length": 256, "rope": True,
               "rope_theta": 10000.0, "rms_norm_eps": model.config.rms_norm_eps,
               "layer_norm_type": "rms", "block_type": "llama", "activation_type": "silu",
               "mask_token_id": tokenizer.mask_token_id, "eos_token_id": tokenizer.eos_token_id}
    save_file(tensors, folder + "/model.safetensors", {"format": "pt"})
    with open(folder + "/config.json", "w") as f:
        json.dump(own, f)
    block = says.get("block_size", 256)

    def net(tokens, missing=0):
        at = (torch.arange(len(tokens)) + missing) // block
        mask = torch.zeros(len(tokens), len(tokens)).masked_fill(at[:, None] < at, -torch.inf)
        logits = model(torch.tensor([tokens]), attention_mask=mask[None, None]).logits[0]
        if says["model_type"] == "Dream":  # row i predicts position i + 1
            logits = torch.cat([logits[:1], logits[:-1]])
        return logits

    return tokenizer, net
