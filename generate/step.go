package generate

// Step is what one step did to a batch. It is valid until the next iteration.
type Step struct {
	N, Steps  int // n of at most N; 0 where nothing was masked from the start
	Sequences []Sequence
	Seconds   float64
	Done      bool // the batch is finished
}

// Sequence is one sequence after a step. Its slices are valid until the next one.
type Sequence struct {
	Index     int     // with the seed and the request, all that it depends on
	Tokens    []int32 // [length], Spec.Mask where masked
	Opened    []Opened
	Closed    []int     // positions masked again
	Replaced  []Opened  // open positions whose tokens were drawn anew; LogP is NaN
	N, Steps  int       // the step that was its latest, of at most Steps
	Done      bool      // it takes no further step
	Finished  bool      // it is done since this step
	Evaluated Evaluated // since its first step

	// Err, in a Pool, is what ended the sequence: a fault of its own. Tokens are those before the
	// step.
	Err error

	member *member
}

// Opened is a position that a step opened.
type Opened struct {
	Position int
	Token    int32
	// log p(token), p of the pass it was drawn from; NaN where a sampler keeps it to itself, and where
	// the text has ended before
	LogP  float64
	Stage int // 0 from the full pass, then partial passes
}

// Evaluated counts work for one sequence.
type Evaluated struct {
	Full    int // full passes
	Partial int // rows of partial passes
	Head    int // rows of the output head
}
