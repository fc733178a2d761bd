"""Writes rope.json: frequencies of scaled rotary embeddings as transformers computes them.

    python3 rope.py > rope.json
"""
import json

from transformers import Qwen2Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

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

out = {}
for name, (rope, length, theta) in CASES.items():
    config = Qwen2Config(hidden_size=256, num_attention_heads=2, max_position_embeddings=length,
                         rope_parameters=rope | {"rope_theta": theta})
    freq, scale = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu")
    out[name] = {"config": {"rope_scaling": rope, "rope_theta": theta, "max_position_embeddings": length, "head_dim": 128},
                 "freq": [float(x) for x in freq], "scale": scale}
print(json.dumps(out, indent=1))
