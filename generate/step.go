package generate

// Step is what one step did to a batch. It is valid until the next iteration.
type Step struct {
	N, Steps  int // n of at most N; 0 where nothing was masked from the start
	Sequences []Sequence
	Seconds   float64
	Done      bool // the batch is finished
}

// Sequence is one of the batch after a step.
type Sequence struct {
	Index     int     // in the run: with the seed, all that it depends on
	Tokens    []int32 // [length], Spec.Mask where masked
	Opened    []Opened
	Closed    []int // positions masked again
	Done      bool
	Evaluated Evaluated // since its first step
}

// Opened is a position that a step opened.
type Opened struct {
	Position int
	Token    int32
	LogP     float64 // log p(token), p of the pass it was drawn from; NaN where a sampler keeps it to itself
	Stage    int     // 0 from the full pass, then partial passes
}

// Evaluated counts work for one sequence.
type Evaluated struct {
	Full    int // full passes
	Partial int // rows of partial passes
	Head    int // rows of the output head
}
