"""The networks of `unmask bench` as ONNX graphs and in PyTorch, with random weights.

Both are written the way their runtimes like best: weights are constants, attention, layer
norm, GELU and rotary embedding are single fused operators, and modulation by a constant time
is folded away as unmask does it.
"""
import needs

needs.need("numpy")
import numpy as np

LM12 = dict(width=768, blocks=[(12, 12)], length=1024, vocab=50258, head=50258, rotary=True, gelu="tanh")
VIT20 = dict(width=768, blocks=[(12, 12), (8, 16)], length=257, vocab=2025, head=1024, rotary=False, gelu="none")
SHAPES = {"lm12": (LM12, 1), "vit20": (VIT20, 1), "vit20x8": (VIT20, 8)}
DECODERS = {"decode": 256}  # pixels along a side, of MAGE's VQGAN
CONVS = {"256": (256, 128), "128": (128, 256)}  # side, channels of a 3x3 convolution


def random(*shape):
    """Rows of length 1, about. They repeat: drawing each number takes longer than measuring."""
    some = np.random.default_rng(0).standard_normal(65521).astype(np.float32) * shape[-1] ** -0.5
    return np.resize(some, shape)


def angles(length, dim):
    freq = 1 / 10000 ** (np.arange(0, dim, 2) / dim)
    a = np.outer(np.arange(length), freq)
    return np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)


class Graph:
    def __init__(self):
        self.nodes, self.constants, self.n = [], [], 0

    def constant(self, value):
        from onnx import numpy_helper
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def op(self, kind, *inputs, domain="", outputs=1, **attributes):
        from onnx import helper
        self.n += 1
        out = [f"t{self.n}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), out, domain=domain, **attributes))
        return out[0] if outputs == 1 else out

    def linear(self, x, width, out):
        return self.op("Add", self.op("MatMul", x, self.constant(random(width, out))), self.constant(random(out)))

    def norm(self, x, width):
        one = self.constant(np.ones(width, np.float32))
        return self.op("LayerNormalization", x, one, self.constant(random(width)), axis=-1, epsilon=1e-5)

    def bytes(self, name, inputs, shape, result, kind):
        from onnx import TensorProto, helper
        graph = helper.make_graph(
            self.nodes, name, [helper.make_tensor_value_info(inputs, getattr(TensorProto, kind), shape)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)], self.constants)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def onnx_network(shape):
    cfg, batch = SHAPES[shape]
    g, h, n = Graph(), cfg["width"], cfg["length"]
    x = g.op("Gather", g.constant(random(cfg["vocab"], h)), "tokens")
    if cfg["rotary"]:
        cos, sin = (g.constant(v) for v in angles(n, 64))
        positions = g.constant(np.tile(np.arange(n, dtype=np.int64), (batch, 1)))
    else:
        x = g.op("Add", x, g.constant(random(n, h)))
    for count, heads in cfg["blocks"]:
        for _ in range(count):
            parts = g.op("Split", g.linear(g.norm(x, h), h, 3 * h), outputs=3, axis=-1, num_outputs=3)
            if cfg["rotary"]:
                parts[:2] = [g.op("RotaryEmbedding", p, positions, cos, sin, domain="com.microsoft",
                                  num_heads=heads, rotary_embedding_dim=0) for p in parts[:2]]
            a = g.op("MultiHeadAttention", *parts, domain="com.microsoft", num_heads=heads)
            x = g.op("Add", x, g.linear(a, h, h))
            m = g.op("Gelu", g.linear(g.norm(x, h), h, 4 * h), approximate=cfg["gelu"])
            x = g.op("Add", x, g.linear(m, 4 * h, h))
    return g.bytes(shape, "tokens", [batch, n], g.linear(g.norm(x, h), h, cfg["head"]), "INT64")


def onnx_conv(name):
    side, channels = CONVS[name]
    g = Graph()
    y = g.op("Conv", "x", g.constant(random(channels, channels, 3, 3)), pads=[1, 1, 1, 1])
    return g.bytes("conv", "x", [1, channels, side, side], y, "FLOAT")


def torch_network(shape, dtype, device="cpu", batch=None, plain=False):
    """A function of tokens that runs one pass, and tokens. Plain attention writes its weights out."""
    import torch
    import torch.nn.functional as F
    cfg, batch = SHAPES[shape][0], batch or SHAPES[shape][1]
    h, n = cfg["width"], cfg["length"]

    def weight(*dims):
        return torch.from_numpy(random(*dims)).to(device, dtype)

    def layer(out, width):
        return weight(out, width), weight(out)

    table = weight(cfg["vocab"], h)
    blocks = [(heads, layer(3 * h, h), layer(h, h), layer(4 * h, h), layer(h, 4 * h))
              for count, heads in cfg["blocks"] for _ in range(count)]
    head, one, shift = layer(cfg["head"], h), torch.ones(h, dtype=dtype, device=device), weight(h)
    place = weight(n, h)
    cos, sin = (torch.from_numpy(v).to(device, dtype) for v in angles(n, 64))
    tokens = torch.zeros(batch, n, dtype=torch.long, device=device)

    def norm(x):
        return F.layer_norm(x, (h,), one, shift, 1e-5)

    def rotate(x):
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def attention(q, k, v):
        if not plain:
            return F.scaled_dot_product_attention(q, k, v)
        return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v

    def run(tokens):
        x = F.embedding(tokens, table)
        if not cfg["rotary"]:
            x = x + place
        for heads, qkv, proj, up, down in blocks:
            q, k, v = (p.view(batch, n, heads, -1).transpose(1, 2) for p in F.linear(norm(x), *qkv).chunk(3, -1))
            if cfg["rotary"]:
                q, k = rotate(q), rotate(k)
            a = attention(q, k, v).transpose(1, 2).reshape(batch, n, h)
            x = x + F.linear(a, *proj)
            x = x + F.linear(F.gelu(F.linear(norm(x), *up), approximate=cfg["gelu"]), *down)
        return F.linear(norm(x), *head)

    return run, tokens


def torch_conv(name):
    import torch
    side, channels = CONVS[name]
    x = torch.randn(1, channels, side, side).to(memory_format=torch.channels_last)
    w = torch.from_numpy(random(channels, channels, 3, 3)).to(memory_format=torch.channels_last)

    @torch.inference_mode()
    def run():
        return torch.nn.functional.conv2d(x, w, padding=1)

    return run


def torch_decode(name):
    """MAGE's VQGAN decoder in channels_last: the reference network with weights and input laid out so."""
    import os
    import sys
    import torch
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testkit", "parity"))
    import reference
    from make_packs import vqgan_weights
    weights = vqgan_weights(torch.Generator().manual_seed(1), 128, (1, 1, 2, 2, 4), 256, 1024)
    weights = {k: v.to(memory_format=torch.channels_last) if v.dim() == 4 else v for k, v in weights.items()}
    codes = torch.arange(256)[None] * 37 % 1024

    @torch.inference_mode()
    def run():
        return reference.vqgan_decode(weights, codes, DECODERS[name] // 16)

    return run
