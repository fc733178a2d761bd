package outputs

import (
	"context"

	"unmask/traces"
)

// Left returns how many pictures are still to be made.
func (p *Pictures) Left() int { return len(p.next) }

// Grow makes the pictures of PictureOptions.Grow, and calls done, which may be nil, after each. A
// folder has those that were finished before an error.
func (p *Pictures) Grow(ctx context.Context, done func()) error {
	for _, r := range p.list {
		at := r.First
		for picture, err := range p.o.Grow.Draw(ctx, r) {
			if err != nil {
				return err
			}
			s := Sample{Index: at, Steps: r.Steps, Opening: &traces.Opening{}}
			if err := p.place(s, picture, nil); err != nil {
				return err
			}
			if at++; done != nil {
				done()
			}
		}
	}
	return nil
}
