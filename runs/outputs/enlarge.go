package outputs

import (
	"context"

	"unmask/generate"
	"unmask/generate/traces"
)

// Enlarge makes the pictures of a job that enlarges one, batch by batch, and calls done, which may
// be nil, after each. After an error a folder has the pictures finished before.
func (p *Pictures) Enlarge(ctx context.Context, done func()) error {
	for len(p.next) > 0 {
		at := p.next[:min(p.j.Run.Batch, len(p.next))]
		var list []generate.Request
		for _, i := range at {
			list = append(list, p.j.Requests.At(i))
		}
		made, err := p.j.larger.Draw(ctx, list)
		if err != nil {
			return err
		}
		p.next = p.next[len(at):]
		for k, picture := range made {
			s := Sample{Index: at[k], Seed: list[k].Seed, Steps: list[k].Steps,
				Opening: &traces.Opening{}}
			if err := p.place(s, picture, nil); err != nil {
				return err
			}
			if done != nil {
				done()
			}
		}
	}
	return nil
}
