package generate

import "unmask/constrain"

// Step is the state of the sequences in a pool after a step. It is valid until the next iteration.
type Step struct {
	// the step of the sequence that has taken most, and the most that one can take; N is 0 if
	// nothing was masked at the start
	N, Steps  int
	Sequences []Progress
	Seconds   float64 // time of the step
	Done      bool    // all of them are finished
}

// Progress is a sequence of Run or Each after a step.
type Progress struct {
	*Sequence
	Number  int     // index of its request, from 0
	Seed    uint64  // of the request
	Seconds float64 // time of the steps since it was added
}

// Sequence is one sequence after a step. Its slices are valid until the next one.
type Sequence struct {
	Index    int     // with the seed and the request, it determines the sequence
	Tokens   []int32 // [length], Spec.Mask where masked
	Opened   []OpenedPosition
	Closed   []int            // positions masked again
	Replaced []OpenedPosition // open positions whose tokens were drawn again; LogP is NaN
	// changes of its length, made before Opened, whose positions are the new ones
	Resized      []Resize
	LengthBefore int  // its length before the step
	N, Steps     int  // its latest step, and the most it can take
	Done         bool // it takes no more steps
	Finished     bool // this step made it Done
	Work         Work // work since its first step

	// with a language that is a list of choices, the probability of each by the first pass
	Choices []constrain.Choice
	// with a language, how many tokens were drawn where the filters had left none that it allows
	FilterOverruled int

	// Err, in a Pool, is the fault that ended the sequence. Tokens are then those before the step.
	Err error

	member *member
}

// OpenedPosition is a position that a step opened.
type OpenedPosition struct {
	Position int
	Token    int32
	// log p(token) under the pass it was drawn from; NaN if the sampler does not report it, or
	// after the text's end
	LogP  float64
	Stage int // 0: drawn from the full pass; then the number of the partial pass
	// the most probable tokens at the position, under the same pass and filters as LogP, the first
	// first; stays valid after the step. nil if Request.Top is 0, or where LogP has no pass: after
	// the text's end, and with samplers that look ahead.
	Top []TopToken
}

// Work counts the work for one sequence.
type Work struct {
	Full    int `json:"full_passes"`
	Partial int `json:"partial_rows"` // rows of partial passes
	Head    int `json:"head_rows"`    // rows of the output head
	// of self-speculation: tokens that were drafted, and those that the check found right
	Drafted  int `json:"drafted,omitempty"`
	Accepted int `json:"accepted,omitempty"`
	// positions at the beginning whose keys and values came from PoolOptions.Store
	Recalled int `json:"recalled,omitempty"`
}

// Add counts other work too.
func (e *Work) Add(o Work) {
	e.Full, e.Partial, e.Head = e.Full+o.Full, e.Partial+o.Partial, e.Head+o.Head
	e.Drafted, e.Accepted = e.Drafted+o.Drafted, e.Accepted+o.Accepted
	e.Recalled += o.Recalled
}
