package samplers

import "fmt"

// Draft makes the text that the rule inside makes with one position a pass, in fewer passes (Wu et
// al. 2025, "Free Draft-and-Verification", FreeDave, arXiv 2510.00294). One pass's marginals give
// drafts that open the best 1, 2, .. Drafts positions; the next pass computes them all, as a batch.
// The first draft is right. The next one is right where the marginals of the one before it open the
// same position with the same token. The last right one stays, and its marginals give the next
// drafts. The last position of a block opens without a pass.
//
// A pass has the rows of all drafts, so this pays where small batches cost little.
type Draft struct {
	Inside Sampler `inside:"greedy"`
	Drafts int     `param:"drafts 1..64 =4" help:"drafts of a pass"`
	ownPace
}

// Proposer is a Sampler whose choices are checked in one pass for several steps.
type Proposer interface {
	// Proposals returns the most drafts of a pass.
	Proposals() int
}

// Proposals implements Proposer.
func (d Draft) Proposals() int { return WithDefaults(d).Drafts }

// Needs what the sampler inside needs.
func (d Draft) Needs(step, steps int) Need { return innerSampler(d).Needs(step, steps) }

// Choose returns the choice of the sampler inside.
func (d Draft) Choose(v *View) (Opening, error) { return innerSampler(d).Choose(v) }

// Check returns an error for a sampler inside whose steps a draft cannot foresee: one that decides
// by what earlier steps did, by its own clock or by chance.
func (d Draft) Check() error {
	in := innerSampler(d)
	if Is[Planner](in) || Is[Remasker](in) || Is[Stateful](in) || Is[Clock](in) ||
		!TakesMostProbable(in) {
		return fmt.Errorf("samplers: draft around %s, want a sampler that takes the most probable "+
			"tokens in steps of the schedule, such as greedy", Text(in))
	}
	return nil
}
