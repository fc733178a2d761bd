"""Writes config_keys.json: the keys of each published network's config.json with their defaults.

    pip install transformers==5.24.0 diffusers==0.35.2 && python3 config_keys.py > config_keys.json

Classes of transformers and diffusers say theirs; for those that their authors publish beside the weights, the keys
are those of the published config.json, with its values where they are no sizes. A key that a newer
class has and nobody reads then fails TestConfigKeys of the network's package.
"""
import inspect
import json

import diffusers
import transformers

CLASSES = {
    "bert": "BertConfig", "roberta": "RobertaConfig", "albert": "AlbertConfig", "esm": "EsmConfig",
    "modernbert": "ModernBertConfig", "gpt2": "GPT2Config", "clip-text": "CLIPTextConfig",
    "qwen2": "Qwen2Config", "qwen3": "Qwen3Config", "qwen3-moe": "Qwen3MoeConfig", "llama": "LlamaConfig",
    "ministral3": "Ministral3Config",
}

DIFFUSERS = {"uvit2d": diffusers.UVit2DModel, "vqmodel": diffusers.VQModel}

# the repository's settings of the image tokenizers of TiTok and TA-TiTok (configs/)
TITOK = dict(
    clustering_vq=False, codebook_size=8192, commitment_cost=0.25, finetune_decoder=False, is_legacy=False,
    num_latent_tokens=128, pretrained_tokenizer_weight="maskgit-vqgan-imagenet-f16-256.bin",
    quantize_mode="vq", text_context_length=77, text_embed_dim=768, token_size=64, use_l2_norm=False,
    vit_dec_model_size="large", vit_dec_patch_size=16, vit_enc_model_size="base", vit_enc_patch_size=16)


def titok(**networks):
    return dict(experiment={}, model=dict(vq_model=TITOK, **networks), losses={}, dataset={}, optimizer={},
                lr_scheduler={}, training={})


# kuleshov-group/mdlm, configs/config.yaml and configs/model; jdeschena/sdtt has the same keys and more
MDLM = dict(
    mode="train", diffusion="absorbing_state", backbone="dit", parameterization="subs",
    time_conditioning=False, T=0, subs_masking=False, seed=1, loader={}, sampling={}, training={}, eval={},
    optim={}, trainer={}, wandb={}, hydra={}, checkpointing={}, callbacks={}, data={}, strategy={},
    noise=dict(type="loglinear", sigma_min=1e-4, sigma_max=20), lr_scheduler={},
    model=dict(name="small", type="ddit", hidden_size=768, cond_dim=128, length=1024, n_blocks=12, n_heads=12,
               scale_by_sigma=True, dropout=0.1, tie_word_embeddings=False))

PUBLISHED = {
    "mdlm": MDLM,
    "sdtt": dict(
        {k: v for k, v in MDLM.items() if k not in ("diffusion", "backbone", "subs_masking", "sampling")},
        compile=False, data_preprocess={}, eval_every=5000, repo="", revision="", tokenizer=dict(name="gpt2"),
        parameterization=dict(name="multi-round-sdtt", distill_mode="kl-bwd", num_distill_steps=2),
        model=dict(MDLM["model"], type="ddit-orig", causal=False)),
    # kuleshov-group/mdlm-owt, configuration_mdlm.py, and UDLM's class with the same network
    "mdlm-flat": dict(
        vocab_size=50258, model_length=1024, hidden_dim=768, cond_dim=129, n_blocks=12, n_heads=12,
        dropout=0.1, time_conditioning=False, cfg=False, cfg_num_classes=-1),
    # LTH14/mage, config/vqgan.yaml
    "mage": dict(vqgan=dict(
        double_z=False, resolution=256, in_channels=3, attn_resolutions=[16], dropout=0.0)),
    "titok": titok(generator=dict(
        model_type="ViT", hidden_size=768, num_hidden_layers=24, num_attention_heads=16,
        intermediate_size=3072, dropout=0.1, attn_drop=0.1, num_steps=8, class_label_dropout=0.1,
        image_seq_len="${model.vq_model.num_latent_tokens}", condition_num_classes=1000,
        randomize_temperature=9.5, guidance_scale=4.5, guidance_decay="linear")),
    "titok-tokenizer": titok(),
    "maskgen": titok(maskgen=dict(
        decoder_embed_dim=1024, decoder_depth=16, decoder_num_heads=16, micro_condition=True,
        micro_condition_embed_dim=256, text_drop_prob=0.1, condition_num_classes=1000, cfg=12.0, num_iter=16,
        temperature=2.0, sample_aesthetic_score=6.5, weight_tying=True, mask_schedule_strategy="arccos")),
    # LlamaGen, tokenizer/tokenizer_image/vq_model.py, ModelArgs
    "llamagen": dict(
        codebook_size=16384, codebook_embed_dim=8, codebook_l2_norm=True, codebook_show_usage=True,
        commit_loss_beta=0.25, entropy_loss_ratio=0.0, encoder_ch_mult=[1, 1, 2, 2, 4],
        decoder_ch_mult=[1, 1, 2, 2, 4], z_channels=256, dropout_p=0.0),
    # Halton-MaskGIT publishes none; a file that is made for it has the heads
    "halton": dict(num_attention_heads=5, dropout=0.0),
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
for name, made in DIFFUSERS.items():
    keys[name] = {k: v.default for k, v in inspect.signature(made.__init__).parameters.items() if k != "self"}
    keys[name].update(_class_name=made.__name__, _diffusers_version=diffusers.__version__)
text = transformers.CLIPConfig().to_dict()
keys["clip"] = dict({k: v for k, v in text.items() if k not in ("transformers_version", "model_type")},
                    text_config={k: v for k, v in text["text_config"].items() if k != "model_type"},
                    vision_config={})
keys.update(PUBLISHED)
print(json.dumps(keys, indent=1, sort_keys=True))
