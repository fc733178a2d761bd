"""Writes rope.json: frequencies of scaled rotary embeddings as transformers computes them.

    python3 rope.py > rope.json
"""
import copy
import json

from transformers import Qwen2Config, Qwen3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

CASES = {
    "linear": ({"rope_type": "linear", "factor": 4.0}, 32768, 10000.0),
    "llama 3.1": ({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192}, 131072, 500000.0),
    "llama 3.2": ({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192}, 131072, 500000.0),
    "yarn of Qwen3": ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 40960, 1000000.0),
    "yarn without length": ({"rope_type": "yarn", "factor": 4.0}, 32768, 1000000.0),
    "yarn with attention_factor": ({"rope_type": "yarn", "factor": 4.0, "attention_factor": 0.7, "beta_fast": 16,
                                    "beta_slow": 2}, 32768, 1000000.0),
    "yarn with mscale": ({"rope_type": "yarn", "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 1.0,
                          "original_max_position_embeddings": 4096}, 163840, 10000.0),
}

# Keys in several places of one config.json, as transformers 5.24 reads them.
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
PLACES = {
    "theta in two places": {"rope_theta": 100.0, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    "rope_scaling beside rope_parameters": {"rope_scaling": YARN, "rope_theta": 500000.0,
                                            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    "rope_scaling beside nothing": {"rope_scaling": YARN, "rope_theta": 500000.0, "rope_parameters": {}},
    "empty rope_scaling": {"rope_scaling": {}, "rope_parameters": YARN | {"rope_theta": 500000.0}},
    "theta in rope_scaling": {"rope_scaling": YARN | {"rope_theta": 500000.0}, "rope_theta": 100.0},
    "length in two places": {"original_max_position_embeddings": 1024, "rope_parameters": YARN | {"rope_theta": 10000.0}},
    "length outside": {"original_max_position_embeddings": 1024,
                       "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0}},
}

out = {}
for name, (rope, length, theta) in CASES.items():
    config = Qwen2Config(hidden_size=256, num_attention_heads=2, max_position_embeddings=length,
                         rope_parameters=rope | {"rope_theta": theta})
    freq, scale = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu")
    out[name] = {"config": {"rope_scaling": rope, "rope_theta": theta, "max_position_embeddings": length, "head_dim": 128},
                 "freq": [float(x) for x in freq], "scale": scale}
for name, keys in PLACES.items():
    keys = keys | {"max_position_embeddings": 16384, "head_dim": 128}
    rotary = Qwen3RotaryEmbedding(Qwen3Config(**copy.deepcopy(keys)))
    out[name] = {"config": keys, "freq": [float(x) for x in rotary.inv_freq], "scale": rotary.attention_scaling}
print(json.dumps(out, indent=1))
