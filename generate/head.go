package generate

import (
	"context"
	"fmt"
	"math"

	"unmask/internal/philox"
	"unmask/model"
	"unmask/samplers"
)

// headWork is the memory of the calls to the output head.
type headWork struct {
	rows                       []int32
	stats                      model.Stats
	draw                       model.Draw
	owner                      []drawn // of each row of a draw
	all                        model.Stats
	uniform, logP              []float64
	token                      []int32
	openSum, openLogP, present []float64
	seen                       []int // positions, by stamp
	stamp                      int
}

// drawn is where a drawn token belongs.
type drawn struct {
	s     *slot
	index int // in opening.Positions
}

// stats computes what the sampler needs, of all busy sequences in one pass over the head.
func (r *run) stats(need samplers.Need) error {
	h := &r.head
	h.rows = h.rows[:0]
	for _, s := range r.busy {
		s.at = len(h.rows)
		for _, p := range s.masked {
			h.rows = append(h.rows, int32(s.row*r.o.Length+p))
		}
	}
	n := len(h.rows)
	h.stats = model.Stats{Beta: need.Beta}
	reduce := need.Beta != 0 || need.Entropy || need.Top || need.LogSum
	if need.Beta != 0 {
		h.stats.LogMoment = grow(&h.all.LogMoment, n)
	}
	if need.Entropy {
		h.stats.Entropy = grow(&h.all.Entropy, n)
	}
	if need.Top {
		h.stats.P1, h.stats.P2, h.stats.Arg = grow(&h.all.P1, n), grow(&h.all.P2, n), grow(&h.all.Arg, n)
	}
	if need.LogSum {
		h.stats.LogSum = grow(&h.all.LogSum, n)
	}
	if reduce {
		if err := r.last.Stats(h.rows, &h.stats); err != nil {
			return err
		}
	}
	if need.Draw {
		h.draw = model.Draw{Power: orOne(need.Power), Uniform: grow(&h.uniform, n), Token: grow(&h.token, n), LogP: grow(&h.logP, n)}
		for _, s := range r.busy {
			for j, p := range s.masked {
				h.draw.Uniform[s.at+j] = r.stream(s).Uniform(p, philox.Token)
			}
		}
		if err := r.last.Sample(h.rows, &h.draw); err != nil {
			return err
		}
	}
	if need.Open {
		if err := r.present(); err != nil {
			return err
		}
	}
	for _, s := range r.busy {
		if reduce {
			s.work.Head += len(s.masked)
		}
		if need.Draw {
			s.work.Head += len(s.masked)
		}
	}
	return nil
}

// present is what p thinks of the tokens at open positions.
func (r *run) present() error {
	h := &r.head
	h.rows, h.owner = h.rows[:0], h.owner[:0]
	for _, s := range r.busy {
		s.openAt = len(h.rows)
		s.work.Head += 2 * len(s.open)
		for _, p := range s.open {
			h.rows = append(h.rows, int32(s.row*r.o.Length+p))
			h.owner = append(h.owner, drawn{s, p})
		}
	}
	sums := grow(&h.openSum, len(h.rows))
	h.present = grow(&h.openLogP, len(h.rows))
	if err := r.last.Stats(h.rows, &model.Stats{LogSum: sums}); err != nil {
		return err
	}
	return r.last.Visit(h.rows, func(i int, logits []float32) {
		d := h.owner[i]
		h.present[i] = float64(logits[d.s.seq.Tokens[d.index]]) - sums[i]
	})
}

// show puts a sequence's part of what was computed into its view.
func (h *headWork) show(v *samplers.View, need samplers.Need, s *slot) {
	at, n := s.at, len(s.masked)
	v.LogMoment, v.Entropy, v.P1, v.P2, v.Arg, v.Token, v.LogP, v.LogSum, v.OpenLogP = nil, nil, nil, nil, nil, nil, nil, nil, nil
	if need.Beta != 0 {
		v.LogMoment = h.stats.LogMoment[at : at+n]
	}
	if need.Entropy {
		v.Entropy = h.stats.Entropy[at : at+n]
	}
	if need.Top {
		v.P1, v.P2, v.Arg = h.stats.P1[at:at+n], h.stats.P2[at:at+n], h.stats.Arg[at:at+n]
	}
	if need.LogSum {
		v.LogSum = h.stats.LogSum[at : at+n]
	}
	if need.Open {
		v.OpenLogP = h.present[s.openAt : s.openAt+len(s.open)]
	}
	if need.Draw {
		v.Token, v.LogP = h.draw.Token[at:at+n], h.draw.LogP[at:at+n]
	}
}

// visit is View.Visit for the sequence that chooses.
func (r *run) visit(positions []int, f func(i int, logits []float32)) error {
	h := &r.head
	h.rows = h.rows[:0]
	h.stamp++
	for _, list := range [][]int{r.visited.masked, r.visited.open} {
		for _, p := range list {
			h.seen[p] = h.stamp
		}
	}
	for _, p := range positions {
		if p < 0 || p >= r.o.Length || h.seen[p] != h.stamp {
			return fmt.Errorf("the sampler reads logits of position %d, want one of View.Masked or Open", p)
		}
		h.rows = append(h.rows, int32(r.visited.row*r.o.Length+p))
	}
	r.visited.work.Head += len(positions)
	return r.last.Visit(h.rows, f)
}

// draw gives every chosen position its token. With a cache the positions of a step are
// drawn in stages (Hayakawa et al. 2025, section 4.1 and appendix "Partial caching"): the first
// from the full pass, each later one from a partial pass over all positions of the step,
// with the tokens of the stages before it in place and every other key and value from
// the full pass.
//
// The first stage is not drawn again where the device that chose drew it.
func (r *run) draw(ctx context.Context, onDevice bool) error {
	stages := 0
	for _, s := range r.busy {
		r.split(s)
		stages = max(stages, len(s.ends))
		for range s.opening.Positions {
			s.pending = append(s.pending, Opened{})
		}
		if s.opening.Tokens != nil {
			s.take()
		}
	}
	for stage := range stages {
		if stage > 0 {
			if err := r.refine(ctx, stage); err != nil {
				return err
			}
		}
		if onDevice && stage == 0 {
			r.place()
		} else if err := r.sample(stage); err != nil {
			return err
		}
	}
	return nil
}

// take accepts the tokens that the sampler drew.
func (s *slot) take() {
	for j, p := range s.opening.Positions {
		logP := math.NaN()
		if s.opening.LogP != nil {
			logP = s.opening.LogP[j]
		}
		s.pending[j] = Opened{Position: p, Token: s.opening.Tokens[j], LogP: logP}
	}
}

// split cuts a sequence's positions into stages, none of them empty. Stage j of c ends
// at |J_(n-1+j/(c+1))|, the schedule's value between the steps; where the sampler opened
// another number than the schedule's, at equal parts.
func (r *run) split(s *slot) {
	k := len(s.opening.Positions)
	s.ends, s.drawn = s.ends[:0], 0
	if k == 0 || s.opening.Tokens != nil {
		return
	}
	open, parts, done := s.size-len(s.masked), r.o.Cache+1, 0
	scheduled := !r.adapts && k == r.quota(s)
	for j := 1; j < parts; j++ {
		end := k * j / parts
		if scheduled {
			end = r.o.Schedule.At(float64(s.n-1)+float64(j)/float64(parts), s.steps, s.size) - open
		}
		if end > done && end < k {
			s.ends = append(s.ends, end)
			done = end
		}
	}
	s.ends = append(s.ends, k)
}

// begin is where a stage begins in opening.Positions.
func (s *slot) begin(stage int) int {
	if stage == 0 {
		return 0
	}
	return s.ends[stage-1]
}

// refine makes a partial pass over the step's positions of every sequence with a further
// stage, the tokens drawn so far in place.
func (r *run) refine(ctx context.Context, stage int) error {
	h := &r.head
	h.rows, r.pass.Read = h.rows[:0], r.pass.Read[:0]
	for _, s := range r.busy {
		if stage >= len(s.ends) {
			continue
		}
		base := s.row * r.o.Length
		for j, p := range s.opening.Positions {
			h.rows = append(h.rows, int32(base+p))
			if j < s.begin(stage) {
				r.pass.Tokens[base+p] = s.pending[j].Token
			} else if j < s.ends[stage] {
				r.pass.Read = append(r.pass.Read, int32(base+p))
			}
		}
		s.work.Partial += len(s.opening.Positions)
	}
	m, err := r.refiner.Refine(ctx, &r.pass, h.rows)
	if err != nil {
		return err
	}
	r.use(m)
	return nil
}

// sample draws a stage of all sequences, in one call for each exponent among them.
func (r *run) sample(stage int) error {
	h := &r.head
	for {
		h.rows, h.owner, h.draw.Power = h.rows[:0], h.owner[:0], 0
		for _, s := range r.busy {
			if stage >= len(s.ends) || s.drawn > stage || len(h.rows) > 0 && s.power() != h.draw.Power {
				continue
			}
			s.drawn, h.draw.Power = stage+1, s.power()
			for j := s.begin(stage); j < s.ends[stage]; j++ {
				h.rows = append(h.rows, int32(s.row*r.o.Length+s.opening.Positions[j]))
				h.owner = append(h.owner, drawn{s, j})
			}
		}
		n := len(h.rows)
		if n == 0 {
			return nil
		}
		h.draw.Uniform, h.draw.Token, h.draw.LogP = grow(&h.uniform, n), grow(&h.token, n), grow(&h.logP, n)
		for i, d := range h.owner {
			d.s.work.Head++
			h.draw.Uniform[i] = r.stream(d.s).Uniform(d.s.opening.Positions[d.index], philox.Token)
		}
		if err := r.last.Sample(h.rows, &h.draw); err != nil {
			return err
		}
		for i, d := range h.owner {
			d.s.pending[d.index] = Opened{Position: d.s.opening.Positions[d.index], Token: h.draw.Token[i], LogP: h.draw.LogP[i], Stage: stage}
		}
	}
}

func (s *slot) power() float64 { return orOne(s.opening.Power) }

func orOne(power float64) float64 {
	if power == 0 {
		return 1
	}
	return power
}

func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	return (*s)[:n]
}
