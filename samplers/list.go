package samplers

// Reasons why rules are never cached, in words that follow a rule's name.
const (
	drawsBeforeChoosing = "draws tokens before it chooses positions"
	drawsTooEarly       = "has the tokens before a second stage could"
	changesLength       = "changes the length after each step"
	checksEveryToken    = "checks every token"
)

// hayakawa is the paper whose samplers this package began with.
const hayakawa = "Hayakawa et al. 2025, Demystifying MaskGIT Sampler and Beyond"

// rules are those of this package, the paper's first.
var rules = []Rule{
	{Prototype: Random{}, Name: "random", Line: "uniformly random positions", Paper: hayakawa},
	{
		Prototype:    Vanilla{},
		Name:         "vanilla",
		Line:         "each position opens by its own coin",
		Paper:        "Sahoo et al. 2024, MDLM; Deschenaux and Gulcehre 2024, SDTT",
		CacheRefusal: "decides at each position alone, so a step's positions have no order",
	},
	{
		Prototype:    MaskGIT{},
		Name:         "maskgit",
		Line:         "draws everywhere, keeps the most confident",
		Paper:        "Chang et al. 2022, MaskGIT",
		CacheRefusal: drawsBeforeChoosing,
	},
	{
		Prototype: Moment{},
		Name:      "moment",
		Line:      "maskgit's equal that chooses first: moment order, tokens from p^beta",
		Paper:     hayakawa,
	},
	{Prototype: UMoment{}, Name: "u-moment", Line: "moment order, tokens from p", Paper: hayakawa},
	{Prototype: Temp{}, Name: "temp", Line: "random positions, tokens from p^beta", Paper: hayakawa},
	{
		Prototype: Halton{},
		Name:      "halton",
		Line:      "a fixed order that spreads over text or image",
		Paper:     "Besnier et al. 2025, Halton Scheduler",
	},
	{
		Prototype: Hybrid{},
		Name:      "hybrid",
		Line:      "halton first, u-moment more and more; or two orders of your own",
		Paper:     hayakawa,
	},
	{
		Prototype: Confidence{},
		Name:      "confidence",
		Line:      "the most probable token first",
		Paper:     "Zheng et al. 2023, Reparameterized Discrete Diffusion",
	},
	{
		Prototype: Margin{},
		Name:      "margin",
		Line:      "the widest gap between the two most probable first",
		Paper:     "Kim et al. 2025, Train for the Worst, Plan for the Best",
	},
	{
		Prototype: Entropy{},
		Name:      "entropy",
		Line:      "the lowest entropy first",
		Paper:     "Xiang et al. 2022, MIMT",
	},
	{
		Prototype: EB{},
		Name:      "eb",
		Line:      "as many as an entropy budget allows, by any order",
		Paper:     "Ben-Hamu et al. 2025, Entropy Bounded Unmasking",
	},
	{
		Prototype:    FirstHitting{},
		Name:         "first-hitting",
		Line:         "one at a time, at its exact time",
		Paper:        "Zheng et al. 2024, Secretly Time-Agnostic Masked Models",
		CacheRefusal: "opens one position a step",
	},
	{
		Prototype: Threshold{},
		Name:      "threshold",
		Line:      "all that are confident enough",
		Paper:     "Wu et al. 2025, Fast-dLLM",
	},
	{
		Prototype: Factor{},
		Name:      "factor",
		Line:      "as many as their confidence together allows",
		Paper:     "Wu et al. 2025, Fast-dLLM",
	},
	{
		Prototype: EntropyThreshold{},
		Name:      "entropy-threshold",
		Line:      "all whose entropy is low enough",
		Paper:     "d3LLM 2026, arXiv 2601.07568",
	},
	{
		Prototype: MultiBlock{},
		Name:      "multi-block",
		Line:      "all whose entropy is low enough, in several blocks at once",
		Paper:     "d3LLM 2026, arXiv 2601.07568",
	},
	{
		Prototype: Frechet{},
		Name:      "frechet",
		Line:      "as many as their confidences certify to be the likeliest together",
		Paper:     "Fast-dLLM++ 2026, arXiv 2606.02955",
	},
	{
		Prototype:    Credit{},
		Name:         "credit",
		Line:         "all that are confident enough, with credit for earlier passes",
		Paper:        "Wang et al. 2025, CreditDecoding",
		CacheRefusal: drawsTooEarly,
		Drawing:      TakesBest,
	},
	{
		Prototype: Dilated{},
		Name:      "dilated",
		Line:      "far apart first, then between: log2 of a block's positions passes",
		Paper:     "Luxembourg et al. 2025, DUS, arXiv 2506.19037",
	},
	{
		Prototype: Spaced{},
		Name:      "spaced",
		Line:      "any sampler of its own pace, of what it opens no two that are near",
		Paper:     "Luxembourg et al. 2025, DUS, arXiv 2506.19037",
	},
	{
		Prototype: PC{},
		Name:      "pc",
		Line:      "early positions first, the more so the surer",
		Paper:     "Huang et al. 2025, PC-Sampler",
	},
	{
		Prototype: SemiAR{},
		Name:      "semi-ar",
		Line:      "blocks left to right, any sampler in a block",
		Paper:     "Nie et al. 2025, LLaDA",
	},
	{
		Prototype:    Greedy{},
		Name:         "greedy",
		Line:         "any sampler's positions, the most probable tokens",
		Paper:        "Nie et al. 2025, LLaDA, at temperature 0",
		CacheRefusal: drawsTooEarly,
		Drawing:      TakesBest,
	},
	{
		Prototype:    LowConfidence{},
		Name:         "low-confidence",
		Line:         "a token everywhere, the most probable stay",
		Paper:        "Nie et al. 2025, LLaDA",
		CacheRefusal: drawsBeforeChoosing,
		Drawing:      RanksByModel,
	},
	{
		Prototype:    Dynamic{},
		Name:         "dynamic",
		Line:         "all that are confident enough, at least as many as the schedule",
		Paper:        "Cheng et al. 2025, SDAR; LLaDA2.0",
		CacheRefusal: drawsBeforeChoosing,
		Drawing:      RanksTempered,
	},
	{
		Prototype:    Apart{},
		Name:         "apart",
		Line:         "all that are confident enough, no two beside each other",
		Paper:        "Liquid AI 2026, LFM2.5-Encoder-350M-Diffusion",
		CacheRefusal: drawsBeforeChoosing,
		Drawing:      RanksByModel,
	},
	{
		Prototype:    FastDLLMv2{},
		Name:         "fast-dllm-v2",
		Line:         "a block's first position, then small blocks by confidence",
		Paper:        "Wu et al. 2025, Fast-dLLM v2",
		CacheRefusal: drawsBeforeChoosing,
		Drawing:      RanksTempered,
	},
	{
		Prototype:    SelfSpeculation{},
		Name:         "self-speculation",
		Line:         "drafts a block and checks it: left-to-right text, fewer passes",
		Paper:        "NVIDIA 2026, Nemotron-Labs-Diffusion",
		CacheRefusal: checksEveryToken,
		Drawing:      RanksByModel,
	},
	{
		Prototype:    Draft{},
		Name:         "draft",
		Line:         "one position a pass, several passes at once: the same text, fewer passes",
		Paper:        "Wu et al. 2025, FreeDave",
		CacheRefusal: checksEveryToken,
	},
	{
		Prototype:    S2D2{},
		Name:         "s2d2",
		Line:         "drafts a block and checks its beginning left to right, with reuse blocks",
		Paper:        "S2D2 2026, arXiv 2603.25702",
		CacheRefusal: drawsTooEarly,
		Drawing:      TakesBest,
	},
	{
		Prototype:    WeDLM{},
		Name:         "wedlm",
		Line:         "low entropy in a window that moves on, early positions first",
		Paper:        "Tencent 2026, WeDLM",
		CacheRefusal: drawsBeforeChoosing,
	},
	{
		Prototype:    DreamOn{},
		Name:         "dreamon",
		Line:         "a hole that grows and shrinks as the model fills it",
		Paper:        "Wu et al. 2026, DreamOn",
		CacheRefusal: changesLength,
	},
	{
		Prototype:    Daedal{},
		Name:         "daedal",
		Line:         "a text that finds its length: it grows until its end is in sight, and where it is unsure",
		Paper:        "Li et al. 2025, DAEDAL",
		CacheRefusal: changesLength,
		Drawing:      TakesBest,
	},
	{
		Prototype:    RhoEOS{},
		Name:         "rho-eos",
		Line:         "a text that finds its length, longer or shorter with each pass",
		Paper:        "rho-EOS 2026, arXiv 2601.22527",
		CacheRefusal: changesLength,
		Drawing:      TakesBest,
	},
	{
		Prototype:    Edit{},
		Name:         "edit",
		Line:         "all that are confident enough, and changes of what was opened",
		Paper:        "Bie et al. 2026, LLaDA2.1",
		CacheRefusal: drawsTooEarly,
		Drawing:      RanksTempered,
	},
	{
		Prototype: KLASS{},
		Name:      "klass",
		Line:      "what is confident and has stopped moving",
		Paper:     "Kim et al. 2025, KLASS",
	},
	{
		Prototype:    InfoGain{},
		Name:         "info-gain",
		Line:         "the set that leaves the least uncertain, by looking ahead",
		Paper:        "github.com/yks23/Information-Gain-Sampler, 2026",
		CacheRefusal: drawsBeforeChoosing,
	},
	{
		Prototype:    WINO{},
		Name:         "wino",
		Line:         "all that are likely, and doubtful ones are masked again, in blocks",
		Paper:        "Hong et al. 2025, WINO",
		CacheRefusal: drawsBeforeChoosing,
		Drawing:      RanksByModel,
	},
	{
		Prototype:    P2{},
		Name:         "p2",
		Line:         "the least likely tokens are masked again",
		Paper:        "Peng et al. 2025, Path Planning",
		CacheRefusal: drawsBeforeChoosing,
	},
	{
		Prototype:    DPLM{},
		Name:         "dplm",
		Line:         "noised argmax everywhere; the least sure are masked again",
		Paper:        "Wang et al. 2024, DPLM",
		CacheRefusal: drawsBeforeChoosing,
	},
	{
		Prototype:    ReMDM{},
		Name:         "remdm",
		Line:         "vanilla that masks again by chance",
		Paper:        "Wang et al. 2025, Remasking Discrete Diffusion",
		CacheRefusal: "tosses a coin at each position alone",
	},
	{
		Prototype:    Gibbs{},
		Name:         "gibbs",
		Line:         "vanilla between whose steps single positions are drawn again",
		Paper:        "Gourevitch et al. 2026, arXiv 2605.22765",
		CacheRefusal: "tosses a coin at each position alone",
	},
	{
		Prototype:    ThetaTrapezoidal{},
		Name:         "theta-trapezoidal",
		Line:         "coins of second order, two evaluations a step",
		Paper:        "Ren et al. 2025, Fast Solvers for Discrete Diffusion",
		CacheRefusal: "has an evaluation of its own between its steps",
	},
	{
		Prototype:    TiTok{},
		Name:         "titok",
		Line:         "draws everywhere by noisy logits, keeps the largest logits",
		Paper:        "Yu et al. 2024, TiTok; Kim et al. 2025, MaskGen",
		CacheRefusal: drawsBeforeChoosing,
	},
	{
		Prototype:    AMUSEd{},
		Name:         "amused",
		Line:         "maskgit whose temperature reaches 0 in the last step",
		Paper:        "Patil et al. 2024, aMUSEd",
		CacheRefusal: drawsBeforeChoosing,
	},
	{
		Prototype: HaltonMaskGIT{},
		Name:      "halton-maskgit",
		Line:      "halton's order, turned for each image; tokens from p^gamma",
		Paper:     "Besnier et al. 2025, Halton Scheduler",
	},
	{
		Prototype:    MaskGITRedraw{},
		Name:         "maskgit-redraw",
		Line:         "maskgit that draws open tokens anew in each step",
		Paper:        "Besnier et al. 2025, Halton Scheduler",
		CacheRefusal: drawsBeforeChoosing,
	},
	{
		Prototype: OmniVoice{},
		Name:      "omnivoice",
		Line:      "the most probable tokens, earlier codebooks first, with noise",
		Paper:     "Zhu et al. 2026, OmniVoice",
	},
	{
		Prototype: Codebooks{},
		Name:      "codebooks",
		Line:      "any sampler, earlier codebooks first",
		Paper:     "Zhu et al. 2026, OmniVoice, around any sampler",
	},
}

func init() {
	for _, r := range rules {
		Register(r)
	}
}
