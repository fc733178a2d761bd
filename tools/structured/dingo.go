package main

import (
	"math"

	"unmask/constrain"
	"unmask/grammar"
	"unmask/samplers"
)

// dingo is the decoding of Suresh et al. 2025, "DINGO: constrained inference for diffusion LLMs"
// (arXiv 2505.23061), algorithm 1 within algorithms 2 and 5: the step's positions are those where
// the model is surest, and they get the tokens of the most probable string of the block that can be
// continued, in which positions that stay masked may hold any token (probability 1). A block must
// end in a live state, from which the language can be completed; how many positions are left for
// that does not count.
type dingo struct{ language *constrain.Language }

func (*dingo) Blocks(free int) (n, size int) {
	return (free + block - 1) / block, block
}

func (*dingo) Needs(int, int) samplers.Need {
	return samplers.Need{Top: true, LogSum: true, Logits: true}
}

// best is the most probable token of a class at a position.
type best struct {
	token int32
	logP  float64
}

// Choose opens the positions with the most probable tokens of the model itself.
func (d *dingo) Choose(v *samplers.View) (o samplers.Opening, err error) {
	o.Positions = v.Top(min(v.Quota, len(v.Masked)), func(i int) float64 { return v.P1[i] })
	at := make([]int, len(o.Positions)) // in Masked
	tops := make([][]best, len(o.Positions))
	for j, p := range o.Positions {
		at[j] = v.Index(p)
	}
	err = v.Visit(o.Positions, func(j int, logits []float32) {
		tops[j] = d.tops(logits[:v.Outcomes], v.LogSum[at[j]])
	})
	if err != nil {
		return o, err
	}
	chosen := make(map[int][]best, len(tops))
	for j, p := range o.Positions {
		chosen[p] = tops[j]
	}
	l := d.language
	from := l.From + (v.Masked[0]-l.From)/block*block
	tokens := d.string(v, from, min(from+block, l.To), chosen)
	for _, p := range o.Positions {
		o.Tokens = append(o.Tokens, tokens[p-from].token)
		o.LogP = append(o.LogP, tokens[p-from].logP)
	}
	return o, nil
}

// tops returns the most probable token of each set of tokens that an edge reads.
func (d *dingo) tops(logits []float32, logSum float64) []best {
	l := d.language
	classes := make([]best, l.Classes)
	for k := range classes {
		classes[k].logP = math.Inf(-1)
	}
	for v, x := range logits {
		k := l.Class[v]
		if logP := float64(x) - logSum; k >= 0 && logP > classes[k].logP {
			classes[k] = best{int32(v), logP}
		}
	}
	sets := make([]best, len(l.Sets))
	for i, set := range l.Sets {
		sets[i] = classes[set[0]]
		for _, k := range set[1:] {
			if classes[k].logP > sets[i].logP {
				sets[i] = classes[k]
			}
		}
	}
	return sets
}

// string returns the tokens of the most probable string of positions from to to-1, given what is
// before; of masked positions that are not chosen it returns any.
func (d *dingo) string(v *samplers.View, from, to int, chosen map[int][]best) []best {
	l := d.language
	start := l.Start
	for _, t := range v.Tokens[l.From:from] {
		start = l.Next(start, t)
	}
	type way struct {
		from int32
		by   best
	}
	ways := make([]map[int32]way, to-from) // by the state that follows a position
	value := map[int32]float64{start: 0}
	for i := range ways {
		ways[i] = map[int32]way{}
		next := map[int32]float64{}
		for s := range int32(l.States()) { // in order, so that equal strings are told apart
			before, ok := value[s]
			if !ok {
				continue
			}
			reach := func(to int32, by best) {
				if w, ok := next[to]; !ok || before+by.logP > w {
					next[to], ways[i][to] = before+by.logP, way{s, by}
				}
			}
			if t := v.Tokens[from+i]; t != v.Mask {
				if to := l.Next(s, t); to >= 0 {
					reach(to, best{token: t})
				}
				continue
			}
			for _, e := range l.Out(s) {
				reach(e.To, read(chosen[from+i], e))
			}
		}
		value = next
	}
	end, top := int32(-1), math.Inf(-1)
	for s := range int32(l.States()) {
		if x, ok := value[s]; ok && (end < 0 || x > top) {
			end, top = s, x
		}
	}
	out := make([]best, to-from)
	for i := len(out) - 1; i >= 0; i-- {
		w := ways[i][end]
		out[i], end = w.by, w.from
	}
	return out
}

// read returns what an edge reads at a position that is chosen, or that stays masked.
func read(tops []best, e grammar.TokenEdge) best {
	if tops == nil {
		return best{}
	}
	return tops[e.Set]
}
