package generate

import (
	"math"

	"unmask/internal/philox"
	"unmask/model"
	"unmask/samplers"
)

// blockHead is what the output head says of a step's positions, all busy sequences' in one call:
// the masked ones of each, then its open ones.
type blockHead struct {
	rows  []int32
	stats model.Stats
	draw  model.Draw
}

// stats computes what the sampler needs.
func (r *blocks) stats(need samplers.Need, step int) error {
	h := &r.head
	h.rows = h.rows[:0]
	for _, s := range r.busy {
		base := s.row * r.o.Length
		s.at = len(h.rows)
		for _, p := range s.masked {
			h.rows = append(h.rows, int32(base+p))
		}
		s.openAt = len(h.rows)
		if need.OpenTop || need.Open {
			for _, p := range s.open {
				h.rows = append(h.rows, int32(base+p))
			}
		}
		s.seq.Evaluated.Head += len(h.rows) - s.at
	}
	n := len(h.rows)
	h.stats = model.Stats{Beta: need.Beta}
	if need.Beta != 0 {
		h.stats.LogMoment = make([]float64, n)
	}
	if need.Entropy {
		h.stats.Entropy = make([]float64, n)
	}
	if need.Top || need.OpenTop {
		h.stats.P1, h.stats.P2, h.stats.Arg = make([]float64, n), make([]float64, n), make([]int32, n)
	}
	if need.LogSum {
		h.stats.LogSum = make([]float64, n)
	}
	if need.Beta != 0 || need.Entropy || need.Top || need.OpenTop || need.LogSum {
		if err := r.last.Stats(h.rows, &h.stats); err != nil {
			return err
		}
	}
	if !need.Draw {
		return nil
	}
	h.draw = model.Draw{Power: orOne(need.Power), Uniform: make([]float64, n), Token: make([]int32, n),
		LogP: make([]float64, n)}
	for _, s := range r.busy {
		for i := range h.rows[s.at:] {
			h.draw.Uniform[s.at+i] = 0.5 // of open positions, whose draws nobody reads
		}
		for i, p := range s.masked {
			h.draw.Uniform[s.at+i] = r.stream(s, step).Uniform(p, philox.Token)
		}
	}
	return r.last.Sample(h.rows, &h.draw)
}

// show puts a sequence's part of what was computed into its view.
func (h *blockHead) show(v *samplers.View, need samplers.Need, s *blockSlot) {
	at, to, end := s.at, s.openAt, s.openAt+len(s.open)
	v.LogMoment, v.Entropy, v.P1, v.P2, v.Arg, v.LogSum, v.Token, v.LogP = nil, nil, nil, nil, nil,
		nil, nil, nil
	v.OpenP1, v.OpenArg = nil, nil
	if need.Beta != 0 {
		v.LogMoment = h.stats.LogMoment[at:to]
	}
	if need.Entropy {
		v.Entropy = h.stats.Entropy[at:to]
	}
	if need.Top {
		v.P1, v.P2, v.Arg = h.stats.P1[at:to], h.stats.P2[at:to], h.stats.Arg[at:to]
	}
	if need.LogSum {
		v.LogSum = h.stats.LogSum[at:to]
	}
	if need.Draw {
		v.Token, v.LogP = h.draw.Token[at:to], h.draw.LogP[at:to]
	}
	if need.OpenTop {
		v.OpenP1, v.OpenArg = h.stats.P1[to:end], h.stats.Arg[to:end]
	}
}

// draw gives the chosen positions their tokens.
func (r *blocks) draw(s *blockSlot, step int) error {
	o, base := &s.opening, s.row*r.o.Length
	s.pending = s.pending[:0]
	n := len(o.Positions)
	if n == 0 {
		return nil
	}
	d := model.Draw{Power: orOne(o.Power), Token: o.Tokens, LogP: o.LogP}
	if o.Tokens == nil {
		rows := make([]int32, n)
		d.Uniform, d.Token, d.LogP = make([]float64, n), make([]int32, n), make([]float64, n)
		for j, p := range o.Positions {
			rows[j], d.Uniform[j] = int32(base+p), r.stream(s, step).Uniform(p, philox.Token)
		}
		if err := r.last.Sample(rows, &d); err != nil {
			return err
		}
		s.seq.Evaluated.Head += n
	}
	for j, p := range o.Positions {
		opened := Opened{Position: p, Token: d.Token[j], LogP: math.NaN()}
		if d.LogP != nil {
			opened.LogP = d.LogP[j]
		}
		s.pending = append(s.pending, opened)
	}
	return nil
}

// visit is View.Visit for the sequence that chooses.
func (r *blocks) visit(positions []int, f func(i int, logits []float32)) error {
	rows := make([]int32, len(positions))
	for i, p := range positions {
		rows[i] = int32(r.visited.row*r.o.Length + p)
	}
	r.visited.seq.Evaluated.Head += len(positions)
	return r.last.Visit(rows, f)
}
