"""Reads and writes safetensors with numpy alone."""
import json
import struct

import numpy as np

DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32, "U8": np.uint8}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


def read(path):
    """Returns the tensors of a file by name, mapped from it."""
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + size)
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        tensors[name] = data[first:last].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write(path, tensors):
    """Writes numpy arrays by name."""
    header, blobs, start = {}, [], 0
    for name, array in tensors.items():
        array = np.ascontiguousarray(array)
        blobs.append(array.tobytes())
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [start, start + len(blobs[-1])]}
        start += len(blobs[-1])
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(encoded)) + encoded)
        for blob in blobs:
            f.write(blob)
