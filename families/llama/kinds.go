package llama

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"unmask/model"
	"unmask/weights"
)

// kind is one kind of published models: how it is recognised, and what its config.json does not
// say. The table is in the order of recognition.
type kind struct {
	// name is the model_type, or another name where several kinds share one.
	name string

	// modelTypes are the values of model_type, separated by blanks; "" for name alone.
	modelTypes string

	// matches tells it from other kinds with the same model_type. If it is nil, model_type is enough.
	matches func(f *file) bool

	// repoPart is a part of the repository's name on the hub, where no file tells the kind; "": any.
	repoPart string

	// readConfig reads the sizes; nil for readQwen.
	readConfig func(f *file, set *weights.Set) Config

	// trunkPrefix is the prefix of readQwen's tensors; "" for model.
	trunkPrefix string

	// tensorNames are the names of tensors, see names.go; nil for qwenNames.
	tensorNames map[string]string

	// shifted says that row i predicts position i+1, as in autoregressive models.
	shifted bool

	blocks       model.Blocks
	defaultBlock int    // positions of a block where config.json has none; 0: rows see all
	blockKey     string // config.json's key of the block's size
	maskText     string // the mask where neither config.json nor the tokenizer names it
	maskID       int32  // the mask's id where there is no such token; 0: none
	endToken     int32  // the end token where config.json has none; 0: none
	endText      string // a further end token, by its text

	// padsTail says that the authors' loop leaves the last position to a padding token, which the
	// network sees: it is the pad_token_id of the files, or padID where they have none.
	padsTail bool
	padID    int32

	// recipe is the published run; %d stands for the block's size.
	recipe string

	// template is the chat template of the published program, "" for that of the files, and
	// answerLength the usual number of tokens of an answer; 0: as of other models.
	template     string
	answerLength int

	// textOnly forbids ids that have no text in the tokenizer.
	textOnly bool
}

// The published runs of several kinds.
const (
	// LLaDARecipe is the run of LLaDA's generate.py, in blocks of 32. It opens positions block by
	// block, so it can follow a grammar where another family's own run cannot.
	LLaDARecipe = "semi-ar(low-confidence) schedule=llada steps=128"
	// SamplerConfig of dLLM's examples/a2d: blocks of 32, 128 steps for 128 tokens
	dllmRecipe       = "semi-ar(low-confidence) schedule=dllm steps=128"
	dllmBlocksRecipe = "low-confidence schedule=dllm steps=%d reuse=blocks"
	// generate.py of dInfer and Fast-dLLM: all that are sure enough
	sureRecipe = "semi-ar(greedy(threshold)) schedule=llada steps=128"
	// README of Dream-org/Dream-v0-Instruct-7B, but with one step per token, as in its chat demo,
	// instead of 512. The published scores are of temperature 0.1 and top-p 0.9, where most rows keep
	// one token and tie: of these the leftmost open first, so the order is nearly left to right. At
	// temperature 0 there are no ties, and the order, by entropy, is another one with other scores.
	dreamRecipe = "entropy schedule=dream steps=128 temperature=0.2 top-p=0.95"
	blockRecipe = "dynamic schedule=llada steps=%d reuse=blocks"
	sdarRecipe  = "dynamic(theta=0.85) schedule=llada steps=%d reuse=blocks"
)

// kinds is the table of kinds, of which the first that matches counts.
var kinds = []*kind{
	// inclusionAI/LLaDA-MoE-7B-A1B-Base, -Instruct, -Instruct-TD (trajectory distillation)
	{
		name:       "llada-moe-td",
		modelTypes: "llada lladamoe",
		matches:    isLLaDAMoE,
		repoPart:   "-TD",
		readConfig: (*file).readLLaDAMoE,
		maskText:   "<|mask|>",
		endText:    "<|role_end|>",
		recipe:     sureRecipe,
	},
	{
		name:       "lladamoe",
		modelTypes: "llada lladamoe",
		matches:    isLLaDAMoE,
		readConfig: (*file).readLLaDAMoE,
		maskText:   "<|mask|>",
		endText:    "<|role_end|>",
		recipe:     LLaDARecipe,
	},
	// GSAI-ML/LLaDA-8B-Base, -Instruct, LLaDA-1.5 (Nie et al. 2025, "Large language diffusion models")
	{
		name:        "llada",
		readConfig:  (*file).readLLaDA,
		tensorNames: lladaNames,
		maskText:    "<|mdm_mask|>",
		recipe:      LLaDARecipe,
	},
	// inclusionAI/LLaDA2.0-mini, LLaDA2.1-mini and larger ones; 2.1 edits (thresholds 0.9: the
	// quality mode). Their config.json has neither a mask nor a block size (modeling_llada2_moe.py)
	{
		name:         "llada2.1",
		modelTypes:   "llada2_moe",
		repoPart:     "LLaDA2.1",
		readConfig:   (*file).readLLaDA2,
		tensorNames:  llada2Names,
		defaultBlock: 32,
		blockKey:     "block_size",
		maskText:     "<|mask|>",
		maskID:       156895,
		recipe:       "edit reuse=blocks",
	},
	{
		name:         "llada2_moe",
		readConfig:   (*file).readLLaDA2,
		tensorNames:  llada2Names,
		defaultBlock: 32,
		blockKey:     "block_size",
		maskText:     "<|mask|>",
		maskID:       156895,
		recipe:       "dynamic(theta=0.95) schedule=llada steps=%d reuse=blocks",
	},
	// GSAI-ML/iLLaDA-8B-*
	{name: "illada", maskText: "<[MASK]>", recipe: LLaDARecipe},
	// Dream-org/DreamReasoner-8B
	{
		name:       "dream-reasoner",
		modelTypes: "Dream",
		matches:    func(f *file) bool { return f.Has("block_size") },
		blockKey:   "block_size",
		maskText:   "<|mask|>",
		recipe:     blockRecipe,
	},
	// Dream-org/Dream-v0-*-7B, Dream-Coder-v0-Instruct-7B, DreamOn-v0-7B, apple/DiffuCoder-7B-*
	{name: "Dream", shifted: true, maskText: "<|mask|>", recipe: dreamRecipe},
	// dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm-*, Qwen3-0.6B-diffusion-bd3lm-*
	{
		name:         "a2d-bd3lm",
		modelTypes:   a2dTypes,
		repoPart:     "-bd3lm",
		blockKey:     "block_size",
		defaultBlock: 32,
		blocks:       model.AnswerBlocks,
		maskText:     "<|mask|>",
		recipe:       dllmBlocksRecipe,
	},
	{
		name:       "a2d-blocks",
		modelTypes: a2dTypes,
		matches:    func(f *file) bool { return f.Has("block_size") },
		blockKey:   "block_size",
		blocks:     model.AnswerBlocks,
		maskText:   "<|mask|>",
		recipe:     dllmBlocksRecipe,
	},
	{name: "a2d-qwen3", modelTypes: a2dTypes, maskText: "<|mask|>", recipe: dllmRecipe},
	// Gen-Verse/TraDo-4B-Instruct, -8B-Instruct, -8B-Thinking: SDAR's class and network
	{
		name:         "trado",
		modelTypes:   "sdar",
		repoPart:     "TraDo",
		blockKey:     "block_size",
		defaultBlock: 4,
		maskText:     "<|MASK|>",
		recipe:       "dynamic(theta=0.9, temperature=1) schedule=llada steps=%d reuse=blocks",
	},
	// JetLM/SDAR-*-Chat (Cheng et al. 2025, "SDAR"), SDAR-30B-A3B-Chat, -Sci
	{name: "sdar", blockKey: "block_size", defaultBlock: 4, maskText: "<|MASK|>", recipe: sdarRecipe},
	{
		name:         "sdar_moe",
		readConfig:   (*file).readQwenMoE,
		blockKey:     "block_size",
		defaultBlock: 4,
		maskText:     "<|MASK|>",
		maskID:       151669,
		recipe:       sdarRecipe,
	},
	// radicalnumerics/RND1-Base-0910: ranked by entropy, 256 steps at temperature 0.1
	{
		name:       "rnd1",
		readConfig: (*file).readQwenMoE,
		shifted:    true,
		maskText:   "<|MASK|>",
		maskID:     151669,
		endToken:   151645,
		// diffusion_sample of rnd/sampling.py reserves a position for the end token and fills it with
		// the padding one, <|endoftext|>: N new tokens are N-1 masks and this
		padsTail: true,
		padID:    151643,
		recipe:   "entropy schedule=floor steps=256 temperature=0.1",
	},
	// Efficient-Large-Model/Fast_dLLM_v2_* (Wu et al. 2025, "Fast-dLLM v2"), generate of the
	// repository: small blocks of 8, threshold 0.9
	{
		name:         "Fast_dLLM_Qwen",
		shifted:      true,
		blockKey:     "bd_size",
		defaultBlock: 32,
		maskText:     "|<MASK>|",
		recipe:       "fast-dllm-v2(block=%d) reuse=blocks",
	},
	// Salesforce/CoDA-v0-Base, -Instruct: the server's run
	{
		name:     "CoDA",
		shifted:  true,
		maskText: "<|mask|>",
		endToken: 151645,
		recipe:   "greedy(entropy) schedule=dream steps=128",
	},
	// fredzzp/open-dcoder-0.5B, recognised by the mask in its vocabulary; sample.py of the authors
	{
		name:       "open-dcoder",
		modelTypes: "qwen2",
		matches: func(f *file) bool {
			_, ok := f.findToken("<M>", math.MaxInt32)
			return ok
		},
		shifted:  true,
		maskText: "<M>",
		recipe:   "p2(by=draws) schedule=floor steps=128 temperature=0.5 top-k=200",
	},
	// ByteDance-Seed/Stable-DiffCoder-8B-Base, -Instruct: the mask <[MASK_TOKEN]> is the default of
	// generate_block and in no key
	{
		name:         "stable-diffcoder",
		modelTypes:   "llama",
		matches:      isStableDiffCoder,
		defaultBlock: 4,
		blocks:       model.CutBlocks,
		maskID:       5,
		recipe:       "low-confidence schedule=llada steps=%d reuse=blocks",
	},
	// LiquidAI/LFM2.5-Encoder-350M-Diffusion: the run of the authors' demo. The files name no mask but
	// in the tokenizer
	{
		name:         "lfm2-diffusion",
		modelTypes:   lfm2Types,
		matches:      isLFM2Diffusion,
		readConfig:   (*file).readLFM2,
		tensorNames:  lfm2Names,
		maskText:     "<|mask|>",
		maskID:       16,
		endToken:     7,
		recipe:       "semi-ar(apart, block=16) schedule=rest steps=32",
		template:     lfm2Template,
		answerLength: 64,
		textOnly:     true,
	},
	// LiquidAI/LFM2.5-Encoder-350M, -230M
	{
		name:        "lfm2-encoder",
		modelTypes:  lfm2Types,
		matches:     isLFM2,
		readConfig:  (*file).readLFM2,
		tensorNames: lfm2Names,
		maskText:    "<|mask|>",
		maskID:      16,
		endToken:    7,
		textOnly:    true,
	},
	// nvidia/Nemotron-Labs-Diffusion-3B, -8B, -14B; tencent/WeDLM-7B-*, -8B-*
	{name: nemotronKind, readConfig: (*file).readNemotron, tensorNames: nemotronNames},
	{name: "wedlm", readConfig: (*file).readWeDLM},
}

// lfm2Types are LFM2's, with models that write from left to right among them.
const lfm2Types = "lfm2 lfm2_bidirectional"

// a2dTypes are dLLM's conversions of autoregressive models.
const a2dTypes = "a2d-qwen2 a2d-qwen3 a2d-llama"

// kindNames returns the values of model_type that are read and the names of kinds, sorted.
func kindNames() (names []string) {
	for _, k := range kinds {
		names = append(append(names, k.name), k.typeNames()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// typeNames returns the values of model_type that are of this kind.
func (k *kind) typeNames() []string {
	if k.modelTypes == "" {
		return []string{k.name}
	}
	return strings.Fields(k.modelTypes)
}

// recogniseKind sets f.kind: the source's own KindOverride or, by the facts of config.json, the
// first row of the table that they fit. A kind that only the repository's name tells is stored in
// the source's KindOverride, so that what is written from the source knows it without that name.
func (f *file) recogniseKind() {
	typeName := f.facts.Type
	if override := f.src.KindOverride; override != "" {
		for _, k := range kinds {
			if k.name == override {
				f.kind = k
				return
			}
		}
		typeName = override
	}
	repo := strings.ToLower(f.src.Repo)
	for _, k := range kinds {
		if !slices.Contains(k.typeNames(), typeName) || k.matches != nil && !k.matches(f) {
			continue
		}
		if k.repoPart == "" {
			f.kind = k
			return
		}
		if f.src.KindOverride == "" && strings.Contains(repo, strings.ToLower(k.repoPart)) {
			f.kind = k
			f.src.KindOverride = k.name
			return
		}
	}
	if typeName == "" {
		f.Fail("model_type is missing, want %s; a model that is like one of these can be read as that "+
			"(--as)", strings.Join(kindNames(), ", "))
		return
	}
	if f.facts.Mentions("Lfm2BidirectionalModel") {
		f.Fail("LFM2.5-Embedding and LFM2.5-ColBERT are not read: they have no head for tokens")
		return
	}
	f.Fail("model_type is %.60q: it is %s", typeName, model.AutoregressiveReason)
}

// listNotes returns a line about each thing that was left open: kinds that only the name of a
// repository tells, and keys that nothing reads.
func (f *file) listNotes() (notes []string) {
	for _, k := range kinds {
		if k.repoPart != "" && f.src.KindOverride == "" && f.src.Repo == "" &&
			slices.Contains(k.typeNames(), f.facts.Type) && (k.matches == nil || k.matches(f)) {
			notes = append(notes, fmt.Sprintf("config.json does not tell %s from %s, only the repository's "+
				"name does, which is not known: read as %s (--as %s for the other)", k.name, f.kind.name,
				f.kind.name, k.name))
		}
	}
	if unknown := f.src.NoteUnknownKeys(append(f.Seen, ignoredKeys...)...); unknown != "" {
		notes = append(notes, unknown)
	}
	return notes
}

// ignoredKeys are keys that these networks' own programs do not read, or read for training only.
var ignoredKeys = strings.Fields(`alibi_bias_max attention_bias attention_kernel
	attention_layer_norm_with_affine block_masking_probability debug ep_size flash_attention
	flash_attn_varlen fuse_cross_entropy init_cutoff_factor init_device init_fn init_std
	mask_block_sizes max_window_layers micro_forward mlp_ratio moe_backend mtp_loss_scaling_factor
	num_diffusion_steps num_nextn_predict_layers precision prefix_probability
	rotary_dim router_dtype router_num_group router_topk_group routed_scaling_factor sampling_eps
	norm_topk_prob sliding_window tie_word_embeddings skip_checkpoint truncate_probability use_deepep use_mrope
	alg alg_temp diffusion_steps eps max_tokens output_history
	dp_varying_mask_ratio ar_loss_weight dlm_loss_weight moe_router_topk_scaling_factor`)

// isStableDiffCoder reports whether a folder is of Stable-DiffCoder, which has Llama's model_type.
func isStableDiffCoder(f *file) bool {
	return f.facts.Mentions("StableDiffcoder") || f.facts.Mentions("stable_diffcoder")
}

// isLLaDAMoE reports whether a folder is of LLaDA-MoE, which has dense LLaDA's model_type.
func isLLaDAMoE(f *file) bool {
	return f.facts.Mentions("LLaDAMoE") || f.facts.Type == "lladamoe" ||
		f.Has("expert_intermediate_size")
}
