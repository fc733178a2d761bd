"""Writes the checkpoints of this folder with torch.save, and what is in them to expected.json.

    python3 make_fixtures.py

Needs PyTorch 1.13 or later; the files were made with 1.13.
"""
import argparse, collections, json, os, sys, types
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
EXPECTED = {}


def save(name, value, tensors, **kw):
    torch.save(value, os.path.join(HERE, name), **kw)
    EXPECTED[name] = {k: {"dtype": str(t.dtype), "shape": list(t.shape),
                          "values": t.double().flatten().tolist()} for k, t in tensors.items()}


def klass(module, name):
    """A class of a package that need not be installed."""
    parts = module.split(".")
    for i in range(len(parts)):
        name_i = ".".join(parts[: i + 1])
        m = sys.modules.setdefault(name_i, types.ModuleType(name_i))
        m.__path__ = []
    c = type(name, (), {"__module__": module})
    setattr(m, name, c)
    return c


def obj(c, **state):
    o = c()
    o.__dict__.update(state)
    return o


def views():
    base = torch.arange(24, dtype=torch.float32)
    m = base.reshape(4, 6)
    cube = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)
    d = {"shared": base, "same": m, "transposed": m.t(), "column": m[:, 2], "steps": base[1::5], "row": m[2],
         "permuted": cube.permute(2, 0, 1), "slice": cube[:, 1:, ::2], "scalar": torch.tensor(2.5), "empty": torch.zeros(2, 0),
         "half": torch.tensor([0.5, -1.25, 65504.0]).half(), "bfloat": torch.tensor([[1.0, -3.0], [0.15625, 256.0]]).bfloat16().t(),
         "long": torch.tensor([-(2 ** 40), 7]), "int": torch.tensor([-5, 9], dtype=torch.int32),
         "short": torch.tensor([-300, 300], dtype=torch.int16), "char": torch.tensor([-128, 127], dtype=torch.int8),
         "byte": torch.tensor([0, 255], dtype=torch.uint8), "bool": torch.tensor([True, False, True]),
         "parameter": torch.nn.Parameter(torch.tensor([3.0, 4.0]))}
    return d


def mage_weights():
    g = torch.Generator().manual_seed(4)
    r = lambda *s: torch.randn(*s, generator=g)
    w = collections.OrderedDict()
    w["token_emb.word_embeddings.weight"] = r(13, 8)
    w["token_emb.position_embeddings.weight"] = r(5, 8)
    w["decoder_embed.weight"] = r(16, 8).half()
    for i in range(2):
        w[f"blocks.{i}.norm1.weight"] = r(8)
    w["decoder_blocks.0.norm1.weight"] = r(16).bfloat16()
    w["vqgan.encoder.conv_in.weight"] = r(4, 3, 3, 3)
    for lvl, o in enumerate((4, 8)):
        for b in range(2):
            w[f"vqgan.encoder.down.{lvl}.block.{b}.conv1.weight"] = r(o, 4 if b == 0 else o, 3, 3)
    w["vqgan.decoder.conv_in.weight"] = r(8, 6, 3, 3)
    w["vqgan.decoder.conv_out.weight"] = r(3, 4, 3, 3)
    w["vqgan.quantize.embedding.weight"] = r(4, 6)
    return w


def sdtt_weights(prefix):
    w = {"vocab_embed.embedding": torch.randn(11, 8), "sigma_map.mlp.0.weight": torch.randn(4, 256),
         "blocks.0.norm1.weight": torch.ones(8), "rotary_emb.inv_freq": torch.ones(2)}
    return {prefix + k: v for k, v in w.items()}


def lightning(weights):
    dict_config, any_node = klass("omegaconf.dictconfig", "DictConfig"), klass("omegaconf.nodes", "AnyNode")
    metadata = klass("omegaconf.base", "ContainerMetadata")

    def node(v, parent):
        return obj(any_node, _metadata=obj(metadata, key=None), _parent=parent, _val=v)

    def config(d, parent=None):
        c = obj(dict_config, _metadata=obj(metadata, ref_type=dict), _parent=parent)
        c._content = {k: config(v, c) if isinstance(v, dict) else node(v, c) for k, v in d.items()}
        return c

    settings = config({"model": {"length": 48, "n_heads": 2, "hidden_size": 8}, "time_conditioning": False, "tokenizer": {"name": "gpt2"}})
    tokenizer = obj(klass("transformers.models.gpt2.tokenization_gpt2_fast", "GPT2TokenizerFast"), pad=50256, table={"a": 1})
    callback = obj(klass("pytorch_lightning.callbacks.model_checkpoint", "ModelCheckpoint"), best=float("inf"), monitor="val/nll")
    return {"epoch": 3, "global_step": 2 ** 40, "pytorch-lightning_version": "2.0.1", "state_dict": weights,
            "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": 1e-4, "betas": (0.9, 0.999)}]}],
            "callbacks": {"ModelCheckpoint{'monitor': None}": callback}, "hparams_name": "kwargs",
            "hyper_parameters": {"config": settings, "tokenizer": tokenizer}, "loops": collections.defaultdict(dict, {"fit": {1, 2}})}


for protocol in (2, 4):
    save(f"views{protocol}.pth", views(), views(), pickle_protocol=protocol)
mage = mage_weights()
save("mage.pth", {"model": mage, "optimizer": {"state": {0: torch.zeros(2)}},
                  "args": argparse.Namespace(model="mage_vit_base_patch16", lr=1e-3, betas=(0.9, 0.95), resume=None)}, mage)
sdtt = sdtt_weights("backbone.")
save("lightning.ckpt", lightning(sdtt), sdtt)
plain = {"encoder": {"weight": torch.ones(2)}, "decoder": {"0": {"bias": torch.zeros(1)}}, "note": "x"}
save("nested.pth", plain, {"encoder.weight": torch.ones(2), "decoder.0.bias": torch.zeros(1)})
# the format before PyTorch 1.6: a settings object beside views that share storages
torch.save({"model": torch.load(os.path.join(HERE, "views2.pth")), "args": argparse.Namespace(arch="small")},
           os.path.join(HERE, "legacy.pth"), _use_new_zipfile_serialization=False)
with open(os.path.join(HERE, "expected.json"), "w") as f:
    json.dump(EXPECTED, f)
