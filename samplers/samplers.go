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
//     (threshold.go).
//  2. Add its row, with name, line and paper, to rules (list.go).
//  3. Freeze its output: go test ./generate -run Golden -update. Only lines of the new rule may
//     appear in generate/testdata/golden.txt.
//  4. Test what the paper says of it, say in docs/samplers.md when to use it, and count it in the
//     README.
//
// A rule in another module calls Register itself (testdata/outside).
package samplers

// Need says what a rule must know of every masked position before it chooses.
type Need struct {
	Beta     float64 // if not 0: View.LogMoment, log sum_x p(x)^Beta
	Entropy  bool    // View.Entropy, nats
	Top      bool    // View.P1, P2 and Arg
	Draw     bool    // View.Token and LogP: a token drawn from p^Power at every masked position
	Power    float64 // for Draw; 0 means 1
	LogSum   bool    // View.LogSum, log sum_x exp(logit)
	Logits   bool    // View.Visit may be called
	OpenLogP bool    // View.OpenLogP, for a Remasker
	OpenTop  bool    // View.OpenP1 and OpenArg, for an Editor or a Remasker
	OpenDraw bool    // View.OpenToken, for an Editor or a Remasker: a token drawn from p^Power
	// View.OpenLogP, for a Judge: the probabilities that the positions' shadows give
	// (model.Batch.Shadows); none where passes have no shadows
	ShadowLogP bool
}

// View is one sequence before a step. It and its slices are valid only during the call and must not
// be changed.
type View struct {
	Tokens       []int32 // [length], Mask where masked
	Mask         int32
	Outcomes     int     // outcomes are 0..Outcomes-1
	Shape        []int   // of the sequence: [length] or [height, width], positions by rows
	Step, Steps  int     // n, from 1, and N
	Quota        int     // number of positions that the schedule opens at this step
	FreeCount    int     // number of positions masked at the start (of the block)
	MaskedBehind int     // masked positions behind the block that the network sees
	EndTokens    []int32 // tokens that end the text
	CanCheckRun  bool    // a Second may have a Run
	Masked       []int   // [masked] positions that may open now, ascending
	// [open] for a Remasker or an Editor: positions that the run has opened, ascending
	Open []int

	// What Needs asked for. Each slice is [masked], with index i for position Masked[i], or nil.
	LogMoment []float64 // log sum_x p(x)^Beta
	Entropy   []float64 // nats
	P1, P2    []float64 // the two largest probabilities
	Arg       []int32   // the most probable token
	Token     []int32   // a token drawn from p^Power
	LogP      []float64 // log p of Token, nats
	LogSum    []float64 // log sum_x exp(logit)

	OpenLogP  []float64 // [open] log p of each open position's token, nats
	OpenP1    []float64 // [open] the largest probability
	OpenArg   []int32   // [open] the most probable token
	OpenToken []int32   // [open] a token drawn from p^Power

	OpenTokenLogP []float64 // [open] log p of OpenToken, nats

	// Visit calls visit once per position with its raw logits [Outcomes or more], outcomes first,
	// perhaps concurrently; i is an index into positions. visit may change the logits.
	Visit func(positions []int, visit func(i int, logits []float32)) error

	// State is the sequence's state from NewState, for a Stateful.
	State any

	// LookAhead, for a Lookahead, evaluates candidates with their tokens in one batch. For each it
	// returns the sum of the entropies (nats) over the positions left masked, and the number of
	// these. Visit cannot be called after it, so a sampler that looks ahead must draw tokens
	// before.
	LookAhead func(candidates []Opening) (entropy []float64, masked []int, err error)

	// [length] log p of each position's token when it opened; 0 if known from the start
	OpenedLogP []float64

	Rand  Rand // of this sequence and step
	Noise Use  // the use for Gumbel and Uniform

	scratch *scratch
}

// Opening is a sampler's choice.
type Opening struct {
	Positions []int     // positions to open, the first to open first
	Tokens    []int32   // their tokens if the sampler drew them; nil: the loop draws from p^Power
	LogP      []float64 // of Tokens, if known
	Power     float64   // 0 means 1
	Close     []int     // open positions to mask again; none that were known from the start

	// for an Editor or a Remasker: open positions whose tokens change; none known from the start
	Replace     []int
	Replacement []int32 // the new tokens

	// Stretch, for a Resizer, is the change of the sequence's length after the opening; nil: none.
	Stretch *Stretch

	// Second, when not nil, asks for another pass of the step, which decides: this opening then has
	// nothing else. The rule must Need something of the first pass.
	Second *Second
}

// Stretch changes the length of a sequence, in this order.
type Stretch struct {
	Position, Masks int     // masked position At becomes Into masks; with Into 0 it stays as it is
	Append          []int32 // tokens and masks to put at the end
	Cut             int     // positions to cut off the end
}

// Second is another pass of a step, over other tokens than the sequence's.
type Second struct {
	Tokens []int32 // [length] Mask where masked
	// Run, where View.CanCheckRun, are masked positions one after another, ascending: the pass then
	// has what a model with blocks of one position predicts at each, from the tokens before it.
	Run []int
	// Choose is called after the pass, with a View that has no measures.
	Choose func(v *View) (Opening, error)
}

// Sampler is a rule for one step. Implementations are plain values, safe for many sequences at
// once.
type Sampler interface {
	Needs(step, steps int) Need
	Choose(v *View) (Opening, error)
}

// Order ranks masked positions: Rank returns k of them, the first to open first.
// ChooseThenSample{Order: o} makes an Order o a Sampler.
type Order interface {
	Needs(step, steps int) Need
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
	// asked for.
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

// ownPace makes a rule SelfPaced, with at most one step for each position.
type ownPace struct{}

// Plan implements Planner.
func (ownPace) Plan(_, free int) (int, error) { return free, nil }

// SelfPaced implements SelfPaced.
func (ownPace) SelfPaced() {}

// As returns the first of rule and, depth first, the rules that it wraps that is a T.
func As[T any](rule any) (T, bool) {
	if t, ok := rule.(T); ok {
		return t, true
	}
	for _, inner := range wrapped(rule) {
		if t, ok := As[T](inner); ok {
			return t, true
		}
	}
	var none T
	return none, false
}

// Is reports whether rule, or a rule that it wraps, is a T.
func Is[T any](rule any) bool {
	_, ok := As[T](rule)
	return ok
}

// Check returns an error for the first parameter out of range in a rule and the rules that it
// wraps.
func Check(rule any) error {
	if err := checkFields(rule); err != nil {
		return err
	}
	if c, ok := rule.(Checker); ok {
		if err := c.Check(); err != nil {
			return err
		}
	}
	for _, inner := range wrapped(rule) {
		if err := Check(inner); err != nil {
			return err
		}
	}
	return nil
}

// NeedsFor returns what a sampler or an order needs to choose k positions in a step.
func NeedsFor(rule Needer, step, steps, k int) Need {
	if f, ok := rule.(Frugal); ok {
		return f.NeedsFor(step, steps, k)
	}
	return rule.Needs(step, steps)
}

// Needer is a Sampler or an Order.
type Needer interface {
	Needs(step, steps int) Need
}

// Union returns the union of two Needs. One pass computes only one exponent; of two, the larger is
// taken, and Hybrid.Check refuses such pairs.
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
