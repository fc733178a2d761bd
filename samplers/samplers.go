// Package samplers holds the rules for which masked positions open next and how their tokens are
// drawn, one paper per file. A rule sees marginals only through a View.
//
// A Sampler returns what it Needs, the denoising loop computes that for the whole batch in one pass
// over the output head, and then each sequence calls Choose. An order by position alone needs
// nothing, so the head runs at the chosen rows only.
//
// Rules are plain values, safe for concurrent use. A View, and what its methods return, belong to
// one goroutine. Register must be called from init functions.
//
// To add a rule to this package:
//
//  1. Write a file with an Order (random.go is the shortest, confidence.go has a parameter): Needs
//     and Rank, most often one call of View.Top. Where an order is not enough, write a Sampler
//     (threshold.go). Say defaults in the fields' tags alone, and read them by WithDefaults.
//  2. Add its row, with name, line and paper, to rules (list.go).
//  3. Freeze its output: go test ./generate -run Golden -update. Only lines of the new rule may
//     appear in generate/testdata/golden.txt.
//  4. Test what the paper says of it, say in docs/samplers.md when to use it, and count it in the
//     README.
//
// A rule in another module calls Register itself (testdata/outside).
package samplers

// Need says what a rule must know of every masked position before it chooses. Each field costs
// work at the output head, so a rule asks for as little as it can.
type Need struct {
	// Beta, if not 0, asks for View.LogMoment: log sum_x p(x)^Beta.
	Beta float64

	// Entropy asks for View.Entropy, in nats.
	Entropy bool

	// Top asks for View.P1, P2 and Arg.
	Top bool

	// Draw asks for View.Token and LogP: a token drawn from p^Power at every masked position.
	Draw bool

	// Power is the exponent for Draw; 0 means 1.
	Power float64

	// LogSum asks for View.LogSum: log sum_x exp(logit).
	LogSum bool

	// Logits allows calls of View.Visit.
	Logits bool

	// OpenLogP asks for View.OpenLogP, for a Remasker.
	OpenLogP bool

	// OpenTop asks for View.OpenP1 and OpenArg, for an Editor or a Remasker.
	OpenTop bool

	// OpenDraw asks for View.OpenToken, for an Editor or a Remasker: a token drawn from p^Power.
	OpenDraw bool

	// ShadowLogP asks for View.OpenLogP, for a Judge: the probabilities that the positions'
	// shadows give (model.Batch.Shadows). OpenLogP stays nil where passes have no shadows.
	ShadowLogP bool
}

// View is one sequence before a step. It and its slices are valid only during the call and must not
// be changed.
type View struct {
	// Tokens are the sequence, [length], with Mask where it is masked.
	Tokens []int32

	// Mask is the mask's token. It is no outcome.
	Mask int32

	// Outcomes is the number of tokens that a position may become: 0 to Outcomes-1.
	Outcomes int

	// Shape is the sequence's: [length], or [height, width] with positions row by row.
	Shape []int

	// Step is n, from 1, and Steps is N.
	Step, Steps int

	// Quota is the number of positions that the schedule opens at this step.
	Quota int

	// BlockFrom and BlockTo are the positions of the block that opens now, from..to-1, known ones
	// among them; without blocks, those from the first to the last that was masked at the start.
	BlockFrom, BlockTo int

	// FreeCount is the number of positions that were masked at the start (of the block).
	FreeCount int

	// MaskedBehind is the number of masked positions behind the block that the network sees.
	MaskedBehind int

	// EndTokens are the tokens that end the text.
	EndTokens []int32

	// CanCheckRun says that a Second may have a Run.
	CanCheckRun bool

	// Masked are the positions that may open now, [masked], ascending.
	Masked []int

	// Open are the positions that the run has opened, [open], ascending, for a Remasker or an
	// Editor.
	Open []int

	// What Needs asked for. Each slice is [masked], with index i for position Masked[i], or nil.

	LogMoment []float64 // log sum_x p(x)^Beta
	Entropy   []float64 // nats
	P1, P2    []float64 // the two largest probabilities
	Arg       []int32   // the most probable token
	Token     []int32   // a token drawn from p^Power
	LogP      []float64 // log p of Token, nats
	LogSum    []float64 // log sum_x exp(logit)

	// The same of open positions. Each slice is [open], with index i for position Open[i], or nil.

	OpenLogP      []float64 // log p of the position's token, nats
	OpenP1        []float64 // the largest probability
	OpenArg       []int32   // the most probable token
	OpenToken     []int32   // a token drawn from p^Power
	OpenTokenLogP []float64 // log p of OpenToken, nats

	// Visit calls visit once per position with its raw logits [Outcomes or more], outcomes first,
	// perhaps concurrently; i is an index into positions. visit may change the logits.
	Visit func(positions []int, visit func(i int, logits []float32)) error

	// State is the sequence's state from NewState, for a Stateful.
	State any

	// LookAhead, for a Lookahead, evaluates candidates with their tokens in one batch. For each it
	// returns the sum of the entropies (nats) over the positions left masked, and the number of
	// these. The pass that it runs replaces the logits, so Visit cannot be called after it, and a
	// sampler that looks ahead must draw its tokens before.
	LookAhead func(candidates []Opening) (entropy []float64, masked []int, err error)

	// OpenedLogP is log p of each position's token when it opened, [length], in nats; 0 where the
	// token was known from the start.
	OpenedLogP []float64

	// Rand gives the random numbers of this sequence and step.
	Rand Rand

	// Noise is the use of random numbers for Gumbel and Uniform.
	Noise Use

	scratch *scratch
}

// Opening is a sampler's choice.
type Opening struct {
	// Positions are those to open, the first to open first.
	Positions []int

	// Tokens are the positions' tokens if the sampler drew them. If nil, the loop draws them from
	// p^Power.
	Tokens []int32

	// LogP is log p of Tokens in nats, if it is known.
	LogP []float64

	// Power is the exponent of the loop's draw; 0 means 1.
	Power float64

	// Close are open positions to mask again. None may be known from the start.
	Close []int

	// Replace are open positions whose tokens change, for an Editor or a Remasker. None may be known
	// from the start.
	Replace []int

	// Replacement are the new tokens at Replace.
	Replacement []int32

	// Stretch, for a Resizer, is the change of the sequence's length after the opening; nil: none.
	Stretch *Stretch

	// Second, when not nil, asks for another pass of the step, which decides: this opening then has
	// nothing else. The rule must Need something of the first pass.
	Second *Second
}

// Stretch changes the length of a sequence, in the order of its fields.
type Stretch struct {
	// Position is a masked position that becomes Masks masks. With Masks 0 it stays as it is.
	Position, Masks int

	// Append are tokens and masks to put at the end.
	Append []int32

	// Cut is the number of positions to cut off the end.
	Cut int
}

// Second is another pass of a step, over other tokens than the sequence's.
type Second struct {
	// Tokens are what the pass computes, [length], with Mask where masked.
	Tokens []int32

	// Run, where View.CanCheckRun, are masked positions one after another, ascending: the pass then
	// has what a model with blocks of one position predicts at each, from the tokens before it.
	Run []int

	// Choose is called after the pass, with a View that has no measures.
	Choose func(v *View) (Opening, error)
}

// Sampler is a rule for one step. Implementations are plain values, safe for many sequences at
// once.
type Sampler interface {
	// Needs returns what Choose reads of the view at a step, from 1, of steps.
	Needs(step, steps int) Need

	// Choose returns what the step opens. An error ends the sequence.
	Choose(v *View) (Opening, error)
}

// Order ranks masked positions. ChooseThenSample{Order: o} makes an Order o a Sampler.
type Order interface {
	// Needs returns what Rank reads of the view at a step, from 1, of steps.
	Needs(step, steps int) Need

	// Rank returns k of the masked positions, the first to open first.
	Rank(v *View, k int) []int
}

// Optional abilities of a Sampler or an Order; see As.
type (
	// Frugal may need less to choose few positions: NeedsFor returns what it needs to choose k. A
	// rule around others has the method itself where it holds for what it wraps; As is not used.
	Frugal interface {
		NeedsFor(step, steps, k int) Need
	}

	// Planner decides itself how many positions a step opens. Plan returns the most steps that the
	// loop may take, given the number asked for (0: none) and the number of positions to open. The
	// loop ends earlier if nothing is masked.
	Planner interface {
		Plan(steps, free int) (int, error)
	}

	// SelfPaced is a Planner that is not affected by a number of steps or by a schedule: it opens
	// whatever it finds ready.
	SelfPaced interface {
		Planner
		SelfPaced()
	}

	// Clock returns the time of a step, from 1 (all masked) to 0, for models that depend on it. By
	// default time is the masked fraction. v has none of the measures of Needs yet.
	Clock interface {
		Time(v *View) float64
	}

	// Blocker opens the free positions in blocks, left to right. Blocks returns the number of blocks
	// for so many free positions, and their size: the last may be shorter; or 0: all have the same
	// number of free positions, give or take one. View.Masked, Quota, Step and Steps then refer to
	// the current block.
	Blocker interface {
		Blocks(free int) (n, size int)
	}

	// Remasker closes open positions or replaces their tokens. The loop takes all steps that were
	// asked for, because a sequence without masks may get some again.
	Remasker interface {
		Remasks()
	}

	// Judge closes open positions, but ends when nothing is masked.
	Judge interface {
		Judges()
	}

	// RunChecker asks for a Second with a Run, of at most MaxDraft positions.
	RunChecker interface {
		ChecksRuns()
	}

	// EarlyEnder ends a text wherever an end token opens: all behind it becomes that token.
	EarlyEnder interface {
		EndsEarly()
	}

	// Resizer changes the length of sequences that have an end token, up to the request's length.
	// Start returns how many masks they begin with.
	Resizer interface {
		Start() int
	}

	// TextCutter is a Resizer that may cut more off the end than masks and end tokens, if CutsText.
	TextCutter interface {
		CutsText() bool
	}

	// Editor replaces tokens of open positions. A block with nothing masked continues while steps
	// replace any, for at most Edits steps.
	Editor interface {
		Edits() int
	}

	// Partitioner opens positions of one part of the sequence at a time: the part of the first masked
	// position. Part returns that part, from..to-1, and whether Blocks of generate may compute it
	// alone once its first position is open; the keys and values of the rest of the block are then
	// those of the last pass over the block, which is an approximation.
	Partitioner interface {
		Part(first int) (from, to int, alone bool)
	}

	// Stateful keeps state per sequence between steps.
	Stateful interface {
		NewState(length int) any
	}

	// Lookahead calls View.LookAhead with at most Candidates candidates.
	Lookahead interface {
		Candidates() int
	}

	// Checker returns a one-line error for values that are within each parameter's range but do not
	// go together.
	Checker interface {
		Check() error
	}

	// Wrapper is a rule that wraps others without a tag for them.
	Wrapper interface {
		Unwrap() []any
	}
)

// ownPace makes a rule SelfPaced, with at most one step for each position. Rules embed it.
type ownPace struct{}

// Plan implements Planner.
func (ownPace) Plan(_, free int) (int, error) { return free, nil }

// SelfPaced implements SelfPaced.
func (ownPace) SelfPaced() {}

// As returns the first T among a rule and, depth first, the rules that it wraps. It is for rules
// what errors.As is for errors, so that a wrapper does not hide what its inner rule can do.
func As[T any](rule any) (T, bool) {
	if t, ok := rule.(T); ok {
		return t, true
	}
	for _, inner := range innerRules(rule) {
		if t, ok := As[T](inner); ok {
			return t, true
		}
	}
	var zero T
	return zero, false
}

// Is reports whether rule, or a rule that it wraps, is a T.
func Is[T any](rule any) bool {
	_, ok := As[T](rule)
	return ok
}

// Check returns an error for the first parameter out of range in a rule and the rules that it
// wraps, or for the first Checker among them that refuses its parameters together.
func Check(rule any) error {
	if err := checkFields(rule); err != nil {
		return err
	}
	if c, ok := rule.(Checker); ok {
		if err := c.Check(); err != nil {
			return err
		}
	}
	for _, inner := range innerRules(rule) {
		if err := Check(inner); err != nil {
			return err
		}
	}
	return nil
}

// Needer is a Sampler or an Order.
type Needer interface {
	Needs(step, steps int) Need
}

// NeedsFor returns what a sampler or an order needs to choose k positions in a step.
func NeedsFor(rule Needer, step, steps, k int) Need {
	if f, ok := rule.(Frugal); ok {
		return f.NeedsFor(step, steps, k)
	}
	return rule.Needs(step, steps)
}

// Union returns what two rules need together. One pass computes only one exponent Beta; of two the
// larger is taken, and Hybrid.Check refuses such pairs.
func (n Need) Union(m Need) Need {
	return Need{
		Beta:       max(n.Beta, m.Beta),
		Entropy:    n.Entropy || m.Entropy,
		Top:        n.Top || m.Top,
		Draw:       n.Draw || m.Draw,
		Power:      max(n.Power, m.Power),
		LogSum:     n.LogSum || m.LogSum,
		Logits:     n.Logits || m.Logits,
		OpenLogP:   n.OpenLogP || m.OpenLogP,
		OpenTop:    n.OpenTop || m.OpenTop,
		OpenDraw:   n.OpenDraw || m.OpenDraw,
		ShadowLogP: n.ShadowLogP || m.ShadowLogP,
	}
}
