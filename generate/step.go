package generate

import "unmask/constrain"

// Step is the state of the sequences in a pool after a step. It is valid until the next iteration.
type Step struct {
	// N is the step of the sequence that has taken most, and Steps the most that one can take. N is 0
	// if nothing was masked at the start.
	N     int
	Steps int

	Sequences []Progress

	// Seconds is the time of the step.
	Seconds float64

	// Done means that all of the sequences are finished.
	Done bool
}

// Progress is a sequence of Run or Each after a step.
type Progress struct {
	*Sequence

	// Number is the index of its request, from 0, and Seed that of the request.
	Number int
	Seed   uint64

	// Seconds is the time of the steps since the sequence was added.
	Seconds float64
}

// Sequence is one sequence after a step. Its slices are valid until the next one.
type Sequence struct {
	// Index is the request's. With the seed and the request it determines the sequence.
	Index int

	// Tokens, [length], are Spec.Mask where masked.
	Tokens []int32

	// Opened are the positions that the step opened, and Closed those that it masked again. Replaced
	// are open positions whose tokens were drawn again; their LogP is NaN.
	Opened   []OpenedPosition
	Closed   []int
	Replaced []OpenedPosition

	// Resized are the changes of its length. They were made before the positions in Opened, Closed
	// and Replaced, which are the new ones. LengthBefore is the length before the step.
	Resized      []Resize
	LengthBefore int

	// Settled is the number of positions at the beginning, known ones among them, that no later step
	// changes. It never becomes less. With Request.Edit, which may change any of them, it is 0 until
	// the sequence is Done.
	Settled int

	// N is the latest step, from 1, and Steps the most that the sequence can take.
	N     int
	Steps int

	// Done means that the sequence takes no more steps; Finished means that this step made it Done.
	Done     bool
	Finished bool

	// Work is the work since its first step.
	Work Work

	// Choices are, with a language that is a list of choices, the probability of each by the first
	// pass.
	Choices []constrain.Choice

	// FilterOverruled is, with a language, the number of tokens that were drawn where the filters had
	// left none that it allows.
	FilterOverruled int

	// Err, in a Pool, is the fault that ended the sequence. Tokens are then those before the step.
	Err error

	member *member
}

// OpenedPosition is a position that a step opened.
type OpenedPosition struct {
	Position int
	Token    int32

	// LogP is log p(token) under the pass from which it was drawn; NaN if the sampler does not report
	// it, or after the text's end.
	LogP float64

	// Stage is 0 if the token was drawn from the full pass; otherwise it is the number of the partial
	// pass.
	Stage int

	// Top are the most probable tokens at the position, under the same pass and filters as LogP, the
	// most probable one first. It stays valid after the step. It is nil if Request.Top is 0, or where
	// LogP has no pass: after the text's end, and with samplers that look ahead.
	Top []TopToken
}

// Work counts the work for one sequence.
type Work struct {
	// Full counts full passes, Partial the rows of partial passes and Head those of the output head.
	Full    int `json:"full_passes"`
	Partial int `json:"partial_rows"`
	Head    int `json:"head_rows"`

	// Drafted counts, with self-speculation, the tokens that were drafted, and Accepted those of them
	// that the check found right.
	Drafted  int `json:"drafted,omitempty"`
	Accepted int `json:"accepted,omitempty"`

	// Recalled counts the positions at the beginning whose keys and values came from
	// PoolOptions.Store.
	Recalled int `json:"recalled,omitempty"`
}

// Add counts other work too.
func (w *Work) Add(other Work) {
	w.Full += other.Full
	w.Partial += other.Partial
	w.Head += other.Head
	w.Drafted += other.Drafted
	w.Accepted += other.Accepted
	w.Recalled += other.Recalled
}
