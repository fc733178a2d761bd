// Package samplers has the rules for which masked positions to open next and how to
// draw their tokens, one file a paper. A rule sees marginals only through a View.
//
// A Sampler returns what it Needs, the denoising loop computes that for the whole batch
// in one pass over the output head, and then each sequence Chooses for itself. An
// order by position alone needs nothing, so the head runs at the chosen rows only.
//
// Rules are plain values, safe for concurrent use. A View, and what its methods hand out, is one
// goroutine's. Register and RegisterSchedule are for init functions.
//
// To add a rule, write an Order: Needs and Rank, most often one call of View.Top. Register makes it
// known by a name, with parameters.
package samplers

// Need is what must be known of every masked position before a choice.
type Need struct {
	Beta     float64 // with Beta != 0: View.LogMoment, log sum_x p(x)^Beta
	Entropy  bool    // View.Entropy, nats
	Top      bool    // View.P1, P2 and Arg
	Draw     bool    // View.Token and LogP: a token drawn from p^Power at every masked position
	Power    float64 // for Draw; 0 means 1
	LogSum   bool    // View.LogSum, log sum_x exp(logit)
	Logits   bool    // View.Visit may be called
	Open     bool    // View.OpenLogP, for a Remasker
	OpenTop  bool    // View.OpenP1 and OpenArg, for an Editor or Remasker
	OpenDraw bool    // View.OpenToken, for a Remasker: a token drawn from p^Power
}

// View is one sequence before a step. It and its slices are valid during the call and must not be
// changed.
type View struct {
	Tokens      []int32 // [length], Mask where masked
	Mask        int32
	Outcomes    int   // outcomes 0..Outcomes-1 can be drawn
	Shape       []int // of the sequence: [length] or [height, width], positions by rows
	Step, Steps int   // n, from 1, and N
	Quota       int   // how many positions the schedule opens at this step
	Free        int   // how many positions were masked at the start (of the block)
	Masked      []int // [masked] positions that may open now, ascending
	Open        []int // [open] for a Remasker or Editor: positions that the run opened, ascending

	// What was needed. Each is [masked], index i for position Masked[i], and nil if not needed.
	LogMoment []float64 // log sum_x p(x)^Beta
	Entropy   []float64 // nats
	P1, P2    []float64 // the two largest probabilities
	Arg       []int32   // the most probable token
	Token     []int32   // a token drawn from p^Power
	LogP      []float64 // log p of Token, nats
	LogSum    []float64 // log sum_x exp(logit)

	OpenLogP  []float64 // [open] log p of the token that each of Open holds, nats
	OpenP1    []float64 // [open] the largest probability
	OpenArg   []int32   // [open] the most probable token
	OpenToken []int32   // [open] a token drawn from p^Power

	// Visit calls visit once per position with its raw logits [outcomes or more], outcomes first,
	// perhaps concurrently; i is an index into positions. visit may change the logits.
	Visit func(positions []int, visit func(i int, logits []float32)) error

	// State is the sequence's own, from a Stateful's NewState.
	State any

	// Ahead, for a Lookahead, evaluates candidates with their tokens in one batch. It returns, for
	// each candidate, the sum of the entropies (nats) that it would leave and over how many
	// positions. The logits behind Visit are gone after it, so a sampler that looks ahead draws
	// tokens before it does.
	Ahead func(candidates []Opening) (entropy []float64, masked []int, err error)

	Past []float64 // [length] log p of each position's token when it opened; 0 where known before

	Rand  Rand // of this sequence and step
	Noise Use  // the use that Gumbel and Uniform draw from

	scratch *scratch
}

// Opening is a sampler's choice.
type Opening struct {
	Positions []int     // to open, the first to open first
	Tokens    []int32   // theirs, where the sampler drew them; nil: the loop draws from p^Power
	LogP      []float64 // of Tokens, if known
	Power     float64   // 0 means 1
	Close     []int     // open positions to mask again; not those known from the start

	// for an Editor or Remasker: open positions whose token changes; not those known from the start
	Replace     []int
	Replacement []int32 // theirs
}

// Sampler is a rule for one step. Implementations are plain values, safe for many
// sequences at once.
type Sampler interface {
	Needs(step, steps int) Need
	Choose(v *View) (Opening, error)
}

// Order ranks masked positions: Rank returns k of them, the first to open first. An
// Order becomes a Sampler as ChooseThenSample{Order: o}.
type Order interface {
	Needs(step, steps int) Need
	Rank(v *View, k int) []int
}

// A Sampler, or an Order, may have these abilities too; see As.
type (
	// Planner decides itself how many positions a step opens. Plan returns how many steps the
	// loop may take at most, from those asked for (0: no wish) and the positions to
	// open; the loop ends earlier when nothing is masked.
	Planner interface {
		Plan(steps, free int) (int, error)
	}
	// SelfPaced is a Planner that opens what it judges ready: neither a number of steps nor a
	// schedule acts on it.
	SelfPaced interface {
		Planner
		SelfPaced()
	}
	// Clock returns the time of a step, from 1 (all masked) to 0, for models that depend on it.
	// Without it, time is the fraction of positions that are masked. v has nothing needed yet.
	Clock interface {
		Time(v *View) float64
	}
	// Blocker opens the free positions in blocks of equal size, left to right; Blocks returns
	// how many. View.Masked, Quota, Step and Steps are then those of one block.
	Blocker interface {
		Blocks(free int) int
	}
	// Remasker closes positions that were open, or replaces their tokens: the loop takes all steps
	// that were asked for.
	Remasker interface {
		Remasks()
	}
	// Editor replaces tokens of positions that are open. A block goes on, where nothing is masked,
	// while a step replaces any, for at most Edits steps.
	Editor interface {
		Edits() int
	}
	// Stateful keeps state per sequence between steps.
	Stateful interface {
		NewState(length int) any
	}
	// Lookahead calls View.Ahead, with at most Candidates candidates.
	Lookahead interface {
		Candidates() int
	}
	// Uncached is a rule whose steps cannot have intermediate stages of partial caching. Uncached
	// returns why, in a few words; a rule that has the method is never cached.
	Uncached interface {
		Uncached() string
	}
	// Checker refuses, in one line, what the ranges of a registered rule's parameters let through.
	Checker interface {
		Check() error
	}
	// Wrapper is a rule around others.
	Wrapper interface {
		Unwrap() []any
	}
)

// As finds an ability of a sampler or order or, depth first, of those that it wraps.
func As[T any](rule any) (T, bool) {
	if t, ok := rule.(T); ok {
		return t, true
	}
	if w, ok := rule.(Wrapper); ok {
		for _, inner := range w.Unwrap() {
			if t, ok := As[T](inner); ok {
				return t, true
			}
		}
	}
	var none T
	return none, false
}

// Check returns an error for the first parameter out of range in a rule and all that it wraps.
func Check(rule any) error {
	if err := checkFields(rule); err != nil {
		return err
	}
	if c, ok := rule.(Checker); ok {
		if err := c.Check(); err != nil {
			return err
		}
	}
	if w, ok := rule.(Wrapper); ok {
		for _, inner := range w.Unwrap() {
			if err := Check(inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// With returns what both need. Two different exponents cannot be had in one pass: the larger
// one is taken, and Hybrid.Check refuses such pairs.
func (n Need) With(m Need) Need {
	return Need{
		Beta:     max(n.Beta, m.Beta),
		Entropy:  n.Entropy || m.Entropy,
		Top:      n.Top || m.Top,
		Draw:     n.Draw || m.Draw,
		Power:    max(n.Power, m.Power),
		LogSum:   n.LogSum || m.LogSum,
		Logits:   n.Logits || m.Logits,
		Open:     n.Open || m.Open,
		OpenTop:  n.OpenTop || m.OpenTop,
		OpenDraw: n.OpenDraw || m.OpenDraw,
	}
}
