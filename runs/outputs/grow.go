package outputs

import (
	"context"

	"unmask/generate/traces"
)

// Left returns the number of pictures still to be made.
func (p *Pictures) Left() int { return len(p.next) }

// Grow makes the pictures of PictureOptions.Grow, and calls done, which may be nil, after each.
// After an error a folder has the pictures finished before.
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
