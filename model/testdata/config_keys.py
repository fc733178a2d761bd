"""Writes config_keys.json: the keys of each published network's config.json with their defaults.

    pip install transformers==5.24.0 && python3 config_keys.py > config_keys.json

Classes of transformers say theirs; for those that their authors publish beside the weights, the keys
are those of the published config.json, with its values where they are no sizes. A key that a newer
class has and nobody reads then fails TestConfigKeys of the network's package.
"""
import json

import transformers

CLASSES = {
    "bert": "BertConfig", "roberta": "RobertaConfig", "albert": "AlbertConfig", "esm": "EsmConfig",
    "modernbert": "ModernBertConfig", "gpt2": "GPT2Config", "clip-text": "CLIPTextConfig",
    "qwen2": "Qwen2Config", "qwen3": "Qwen3Config", "qwen3-moe": "Qwen3MoeConfig", "llama": "LlamaConfig",
    "ministral3": "Ministral3Config",
}

PUBLISHED = {
    # GSAI-ML/LLaDA-8B-Instruct
    "llada": dict(
        activation_type="silu", alibi=False, alibi_bias_max=8.0, attention_dropout=0.0,
        attention_layer_norm=False, attention_layer_norm_with_affine=True, bias_for_layer_norm=False,
        block_group_size=1, block_type="llama", embedding_dropout=0.0, flash_attention=True,
        include_bias=False, include_qkv_bias=False, init_cutoff_factor=None, init_device="meta",
        init_fn="mitchell", init_std=0.02, input_emb_norm=False, layer_norm_type="rms",
        layer_norm_with_affine=True, mlp_ratio=4, multi_query_attention=None, precision="amp_bf16",
        residual_dropout=0.0, rope=True, rope_full_precision=True, scale_logits=False, use_cache=False,
        weight_tying=False),
    # Dream-org/Dream-v0-Instruct-7B
    "dream": dict(
        attention_dropout=0.0, hidden_act="silu", initializer_range=0.02, max_window_layers=28,
        rope_scaling=None, sliding_window=None, tie_word_embeddings=False, use_cache=True, use_mrope=False,
        use_sliding_window=False),
    # JetLM/SDAR-8B-Chat
    "sdar": dict(
        attention_bias=False, attention_dropout=0.0, debug=False, ep_size=1, fuse_cross_entropy=True,
        hidden_act="silu", initializer_range=0.02, max_window_layers=36, micro_forward=False,
        rope_scaling=None, skip_checkpoint=False, sliding_window=None, tie_word_embeddings=False,
        use_cache=False, use_deepep=False, use_sliding_window=False),
    # inclusionAI/LLaDA2.0-mini
    "llada2-moe": dict(
        attention_dropout=0.0, embedding_dropout=0.0, hidden_act="silu", initializer_range=0.02,
        max_window_layers=28, norm_head=False, norm_softmax=False, norm_topk_prob=True, output_dropout=0.0,
        output_router_logits=False, rope_scaling=None, router_dtype="fp32", score_function="sigmoid",
        sliding_window=4096, use_bias=False, use_cache=False, use_qkv_bias=False, use_rmsnorm=True,
        use_sliding_window=False, using_split_qkv_in_self_attention=False),
    # inclusionAI/LLaDA-MoE-7B-A1B-Instruct
    "llada-moe": dict(
        attention_bias=False, attention_dropout=0.0, clip_qkv=None, hidden_act="silu",
        initializer_range=0.02, moe_router_score_function="softmax", norm_topk_prob=None,
        output_router_logits=False, partial_rotary_factor=1, qk_layernorm=True, rope_scaling=None,
        routed_scaling_factor=1, router_aux_loss_coef=0.01, router_num_group=None, router_topk_group=None,
        shared_expert_intermediate_size=None, use_cache=False),
    # Salesforce/CoDA-v0-Instruct
    "coda": dict(
        attention_bias=False, attention_dropout=0.0, attention_kernel="flash_attention",
        block_masking_probability=[0.25, 0.5], hidden_act="silu", initializer_range=0.02,
        mask_block_sizes=[4, 8, 16, 32], max_window_layers=28, prefix_probability=0, rope_scaling=None,
        sampling_eps=[0.001, 0.25], sliding_window=None, truncate_probability=0, use_cache=True,
        use_sliding_window=False),
    # the authors' configuration_rnd.py of RND1-Base-0910
    "rnd1": dict(
        attention_bias=False, attention_dropout=0.0, hidden_act="silu", initializer_range=0.02,
        is_causal=False, max_window_layers=48, moe_backend="hf", num_diffusion_steps=256,
        output_router_logits=False, rope_scaling=False, router_aux_loss_coef=0.001, sliding_window=False,
        use_cache=False, use_sliding_window=False),
}

keys = {}
for name, title in CLASSES.items():
    config = getattr(transformers, title)().to_dict()
    keys[name] = {k: v[:1] if isinstance(v, list) else v for k, v in config.items()
                  if k not in ("transformers_version", "model_type")}
keys.update(PUBLISHED)
print(json.dumps(keys, indent=1, sort_keys=True))
