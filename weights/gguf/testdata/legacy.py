"""Makes legacy.gguf and legacy.safetensors, the values that gguf gives for it.

    pip install gguf==0.19.0 safetensors numpy
    python legacy.py

One tensor [3, 512] of random blocks for each of the types that llama.cpp's smaller mixtures have.
"""
import numpy as np
from gguf import GGMLQuantizationType as T, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize
from safetensors.numpy import save_file

# where the float16 scales of a block begin
SCALES = {T.Q4_1: (0, 2), T.Q5_0: (0,), T.Q5_1: (0, 2), T.Q2_K: (80, 82), T.Q3_K: (108,), T.IQ4_NL: (0,)}
ROWS, WIDTH = 3, 512

rng = np.random.default_rng(20)
writer, values = GGUFWriter("legacy.gguf", "none"), {}
for kind, scales in SCALES.items():
    each, size = GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (ROWS * WIDTH // each, size), dtype=np.uint8)
    for at in scales:
        d = rng.normal(0, 0.01, len(blocks)).astype(np.float16)
        blocks[:, at:at + 2] = d.view(np.uint8).reshape(-1, 2)
    blocks = blocks.reshape(ROWS, -1)
    writer.add_tensor(kind.name, blocks, raw_dtype=kind)
    values[kind.name] = dequantize(blocks, kind).astype(np.float32)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(values, "legacy.safetensors")
