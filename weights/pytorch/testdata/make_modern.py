"""Writes checkpoints of what PyTorch 2 can save, and what is in them to modern.json.

    python3 make_modern.py

Made with PyTorch 2.15.
"""
import datetime, decimal, enum, functools, json, operator, os, types
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
EXPECTED = {}


class Colour(enum.Enum):
    RED = 1


class Tagged(torch.nn.Parameter):
    pass


class Outer:
    class Shade(enum.Enum):
        DARK = 2

    class Plain:
        pass

    class Entries(dict):
        pass


class Partial:
    def __reduce__(self):
        return functools.partial(dict, a=1), ()


def save(name, value, tensors, **kw):
    torch.save(value, os.path.join(HERE, name), **kw)
    EXPECTED[name] = {k: {"dtype": str(t.dtype), "shape": list(t.shape),
                          "values": t.double().flatten().tolist()} for k, t in tensors.items()}


pairs = torch.view_as_complex(torch.tensor([[1.0, 2.0], [3.0, -4.0], [-0.5, 0.25]]))
signs = {"neg": torch._neg_view(torch.tensor([1.0, -2.0, 0.5])), "imag": pairs.conj().imag,
         "negint": torch._neg_view(torch.tensor([1, -2, 30000], dtype=torch.int16)),
         "neghalf": torch._neg_view(torch.tensor([[1.5, -2.0]]).half().t()), "negstep": torch._neg_view(torch.arange(9.0))[1::3],
         "plain": torch.tensor([1.0])}
assert signs["imag"].is_neg()
base = torch.arange(6.0).reshape(2, 3)
views = {"expanded": torch.tensor([7.0]).expand(3, 4), "rows": base[:1].expand(5, 3), "column": base[:, :1].expand(2, 6),
         "windows": torch.arange(5.0).unfold(0, 3, 1), "long": torch.tensor(3).expand(40)}
tagged = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
tagged.tag = "kept by PyTorch"
model = {"w": torch.tensor([[1.0, 2.0]]), "tagged": tagged}
optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))])
optimizer.param_groups[0]["params"][0].grad = torch.ones(2)
optimizer.step()
foreign = {"model": model, "enum": Colour.RED, "decimal": decimal.Decimal("1.5"), "zone": datetime.timezone.utc, "dtype": torch.complex64,
           "complex": pairs, "quantized": torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8),
           "sparse": torch.eye(2).to_sparse(), "device": torch.device("cpu"), "generator": torch.get_rng_state()[:4]}
python = {"model": {"w": model["w"], "short": torch.tensor([1, 65535], dtype=torch.uint16), "int": torch.tensor([1, 2 ** 32 - 1], dtype=torch.uint32),
                   "long": torch.tensor([1, 2 ** 53], dtype=torch.uint64)},
          "inner": [Outer.Shade.DARK, Outer.Plain(), Outer.Entries(a=1), Outer.Plain, Partial()],
          "args": types.SimpleNamespace(model="m", path="/data/\udce9", nested=types.SimpleNamespace(a=1)),
          "builtins": [..., NotImplemented, len, sorted, max, print, iter([1]), enumerate([1]), zip([1]), map(len, []), reversed([1]), range(3)],
          "errors": [ValueError("x"), KeyError, StopIteration(), UserWarning()], "types": [list[int], int | None],
          "getters": [operator.itemgetter(1), operator.attrgetter("a"), operator.methodcaller("a")]}
save("python.pth", python, python["model"])
save("python4.pth", python, python["model"], pickle_protocol=4)
torch.save(signs, os.path.join(HERE, "signs.pth"))  # which is refused
save("expanding.pth", views, views)
save("foreign.pth", foreign, model)
save("optimizer.pth", {"net": {"w": model["w"]}, "optim": optimizer.state_dict()}, {"net.w": model["w"]})
torch.serialization.set_crc32_options(False)
save("nocrc.pth", {"w": model["w"]}, {"w": model["w"]})
json.dump(EXPECTED, open(os.path.join(HERE, "modern.json"), "w"))
