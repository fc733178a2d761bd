package experiments

// Claims about text that are judged in two places.
const (
	cachePerStep          = "partial caching gains per step, text"
	cachePerSecond        = "partial caching gains per second, text"
	followsInEntropy      = "Moment follows MaskGIT, in entropy"
	followsInPerplexity   = "Moment follows MaskGIT, in perplexity"
	temperatureExplains   = "temperature sampling alone explains most of MaskGIT, in perplexity"
	arithmeticBiases      = "32-bit arithmetic biases Vanilla"
	arithmeticDoesNotBias = "32-bit arithmetic does not bias Fixed"
)

// premises says of each claim under which condition it can be expected, by name.
var premises = map[string]string{
	"Moment follows MaskGIT":                    fewOpen,
	followsInEntropy:                            fewOpen,
	followsInPerplexity:                         fewOpen,
	"Moment follows MaskGIT, in contradictions": fewOpen,

	"temperature sampling alone explains most of MaskGIT": orderMattersLittle,
	temperatureExplains: orderMattersLittle,

	"MaskGIT degrades with many steps": "the temperature of what a step draws falls with the number of " +
		"steps, so that many steps leave little variety, which a distance of distributions counts",

	"partial caching gains per step, images":            halvesDepend,
	cachePerStep:                                        halvesDepend,
	"partial caching gains per step, in contradictions": halvesDepend,

	"partial caching gains per second, images": cheapPartialPass,
	cachePerSecond: cheapPartialPass,
	"Hybrid and cache accelerate by 1.5 to 2": cheapPartialPass,

	"temperature sampling costs entropy": "tokens are drawn from a power of the marginal above 1, and the " +
		"marginals are not nearly certain already",

	"U-Moment and Halton cross: Halton is better with few steps, U-Moment with many": "neighbours " +
		"depend on each other, so that few steps gain by positions that are far apart; and some marginals " +
		"are surer than others, so that many steps gain by order",

	"Hybrid is better than Random throughout": "what the first steps open decides much of the rest, and " +
		"depends on each other",
	"Hybrid contradicts itself less than Random": "what the first steps open decides much of the rest, " +
		"and depends on each other",

	arithmeticBiases: "outcomes and steps are many: in each draw, uniforms of 24 bits leave the least " +
		"probable outcomes out",
	arithmeticDoesNotBias: "how many positions a step opens is given, and not itself drawn in 32 bits",
}

const (
	fewOpen = "a step opens few of the positions and outcomes are many: the bound of theorem 1 grows with " +
		"the one and falls with the other"
	orderMattersLittle = "confident positions are not much better to begin with than others, and what " +
		"confidence changes is the temperature"
	halvesDepend     = "the second half of a step's positions depends on what the first half became"
	cheapPartialPass = "a partial pass costs a small share of a full one, as in long sequences and large " +
		"networks; here it also waits for memory and overheads"
)
