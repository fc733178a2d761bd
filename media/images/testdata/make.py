"""Writes the JPEGs of this folder, and beside each a PNG of what Pillow reads (pip install pillow==13.0.0).

    python3 make.py

A name is index-subsampling-quality-progressive, or index-g for grey; cmyk.jpg has four inks, rgb-* are stored as
red, green and blue, the latter two with fewer samples.
grey16.png has 16 bits and a transparent level, grey16-8.png what Pillow reads of it.
"""
import os, struct, zlib

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = ["1-2-95-0", "1-1-50-1", "6-0-50-0", "5-2-50-1", "3-2-95-0", "0-g"]
rng = np.random.default_rng(1)
for i, (w, h) in enumerate([(64, 48), (37, 51), (3, 5), (2, 2), (17, 1), (1, 9), (65, 33)]):
    small = rng.integers(0, 256, (max(1, h // 4), max(1, w // 4), 3), dtype=np.uint8)
    picture = Image.fromarray(small).resize((w, h), Image.BICUBIC)
    for subsampling in (0, 1, 2, "g"):
        for quality in (50, 95):
            for progressive in (0, 1):
                name = f"{i}-g" if subsampling == "g" else f"{i}-{subsampling}-{quality}-{progressive}"
                if name not in KEPT:
                    continue
                path = os.path.join(HERE, name)
                if subsampling == "g":
                    picture.convert("L").save(path + ".jpg")
                else:
                    picture.save(path + ".jpg", quality=quality, subsampling=subsampling, progressive=bool(progressive))
                Image.open(path + ".jpg").convert("RGB").save(path + ".png")

for name in ("0-2-90", "6-1-90", "3-2-90"):  # index-subsampling-quality, of red, green and blue: Adobe's transform 0
    index, subsampling, quality = (int(x) for x in name.split("-"))
    w, h = [(64, 48), None, None, (2, 2), None, None, (65, 33)][index]
    small = np.random.default_rng(10 + index).integers(0, 256, (max(1, h // 4), max(1, w // 4), 3), dtype=np.uint8)
    path = os.path.join(HERE, "rgb-" + name)
    Image.fromarray(small).resize((w, h), Image.BICUBIC).save(path + ".jpg", quality=quality, subsampling=subsampling)
    data = open(path + ".jpg", "rb").read()
    assert data[2:4] == b"\xff\xe0"  # JFIF, which means YCbCr: Adobe's segment takes its place
    rest = data[4 + struct.unpack(">H", data[4:6])[0]:]
    adobe = b"\xff\xee" + struct.pack(">H5sHHHB", 14, b"Adobe", 100, 0, 0, 0)
    open(path + ".jpg", "wb").write(data[:2] + adobe + rest)
    Image.open(path + ".jpg").convert("RGB").save(path + ".png")

inks = Image.fromarray(np.random.default_rng(2).integers(0, 256, (6, 5, 4), dtype=np.uint8), "CMYK").resize((20, 24), Image.BICUBIC)
inks.save(os.path.join(HERE, "cmyk.jpg"), quality=90)
Image.open(os.path.join(HERE, "cmyk.jpg")).convert("RGB").save(os.path.join(HERE, "cmyk.png"))

levels = np.array([0, 1, 128, 255, 256, 4660, 65280, 65535], dtype=">u2")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


with open(os.path.join(HERE, "grey16.png"), "wb") as f:
    f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", len(levels), 1, 16, 0, 0, 0, 0))
            + chunk(b"tRNS", struct.pack(">H", 4660)) + chunk(b"IDAT", zlib.compress(b"\0" + levels.tobytes())) + chunk(b"IEND", b""))
read = Image.open(os.path.join(HERE, "grey16.png")).convert("RGB")
Image.frombytes("RGB", read.size, read.tobytes()).save(os.path.join(HERE, "grey16-8.png"))
