package constrain

// NewChain computes the sums for tokens, with mask where they are not known, given the evidence at
// masked positions; nil: nothing is known there.
func NewChain(l *Language, tokens []int32, mask int32, evidence []*Evidence) (*Chain, error) {
	c := new(Chain)
	if !c.computeSums(l, tokens, mask, evidence) {
		return nil, errNone
	}
	return c, nil
}

// NewChainWithAlternatives is NewChain with coefficients of other tokens at known positions. There
// must be a sequence.
func NewChainWithAlternatives(l *Language, tokens []int32, mask int32,
	evidence []*Evidence) *Chain {
	c := &Chain{hasAlternatives: true}
	c.computeSums(l, tokens, mask, evidence)
	return c
}

// Best returns the sets that the most probable sequence reads; -1 where the token is known.
func (c *Chain) Best() []int32 { return c.bestPath(nil) }

// Bytes returns about how much memory the sums hold.
func (c *Chain) Bytes() int { return c.bytes() }
