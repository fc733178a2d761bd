"""Writes the JPEGs of this folder, and beside each a PNG of what Pillow reads (pip install pillow==13.0.0).

    python3 make.py

A name is index-subsampling-quality-progressive, or index-g for grey.
"""
import os

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
