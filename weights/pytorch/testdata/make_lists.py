"""Makes lists.pth and lists4.pth: tensors in lists and tuples, float8, keys that are no names.

    pip install torch==2.15.0
    python make_lists.py

lists4.pth has the format from before zips, with pickles of protocol 4.
"""
import torch


def full(n, v):
    return torch.full((n,), float(v))


state = {
    "a": full(2, 1),
    "blocks": [full(2, 2), {"w": full(3, 3)}, (full(1, 4), "text", [full(1, 5)])],
    "eight": full(4, 6).to(torch.float8_e4m3fn),
    "five": full(4, 7).to(torch.float8_e5m2),
    "optimizers": [{"state": {0: full(2, 8)}, "param_groups": []}],
    (1, 2): full(3, 9),
    "set": {full(1, 10)},
}
torch.save(state, "lists.pth")
torch.save(state, "lists4.pth", pickle_protocol=4, _use_new_zipfile_serialization=False)
