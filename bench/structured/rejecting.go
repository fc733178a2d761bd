package main

import (
	"cmp"
	"math"
	"slices"

	"unmask/constrain"
	"unmask/samplers"
)

// rejecting is the decoding of Mündler et al. 2025, "Constrained decoding of diffusion LLMs with
// context-free grammars" (arXiv 2508.10111), for a regular language: a step opens one position, the
// one with the most probable token of all, if what is open can still be completed; if not, the
// token is rejected and the next most probable one is tried. A stretch of masks counts as any text,
// however long. Where no token is left, the most probable one is taken as it is.
type rejecting struct {
	language *constrain.Language
	reach    [][]bool // [states][states] by any tokens
}

func newRejecting(l *constrain.Language) *rejecting {
	r := &rejecting{language: l}
	for s := range int32(l.States()) {
		reach := make([]bool, l.States())
		reach[s] = true
		for queue := []int32{s}; len(queue) > 0; queue = queue[1:] {
			for _, e := range l.Out(queue[0]) {
				if !reach[e.To] {
					reach[e.To] = true
					queue = append(queue, e.To)
				}
			}
		}
		r.reach = append(r.reach, reach)
	}
	return r
}

func (*rejecting) Blocks(free int) int { return (free + block - 1) / block }

func (*rejecting) Needs(int, int) samplers.Need { return samplers.Need{LogSum: true, Logits: true} }

// proposal is a token at a position, by its index in View.Masked.
type proposal struct {
	at    int
	token int32
	logP  float64
}

// Choose tries proposals, the most probable first.
func (r *rejecting) Choose(v *samplers.View) (o samplers.Opening, err error) {
	byPosition := make([][]proposal, len(v.Masked))
	err = v.Visit(v.Masked, func(i int, logits []float32) {
		for token, x := range logits[:v.Outcomes] {
			if !math.IsInf(float64(x), -1) {
				byPosition[i] = append(byPosition[i], proposal{i, int32(token), float64(x) - v.LogSum[i]})
			}
		}
	})
	if err != nil {
		return o, err
	}
	all := slices.Concat(byPosition...)
	slices.SortFunc(all, func(a, b proposal) int {
		return cmp.Or(cmp.Compare(b.logP, a.logP), cmp.Compare(a.at, b.at), cmp.Compare(a.token, b.token))
	})
	tokens := slices.Clone(v.Tokens)
	take := all[0]
	for _, p := range all {
		position := v.Masked[p.at]
		tokens[position] = p.token
		if r.completes(tokens, v.Mask) {
			take = p
			break
		}
		tokens[position] = v.Mask
	}
	return samplers.Opening{Positions: []int{v.Masked[take.at]}, Tokens: []int32{take.token},
		LogP: []float64{take.logP}}, nil
}

// completes reports whether tokens, with any text in the place of each stretch of masks, belong to
// the language.
func (r *rejecting) completes(tokens []int32, mask int32) bool {
	l := r.language
	states, masked := map[int32]bool{l.Start: true}, false
	for _, t := range tokens[l.From:l.To] {
		next := map[int32]bool{}
		for s := range states {
			switch {
			case t != mask:
				if to := l.Next(s, t); to >= 0 {
					next[to] = true
				}
			case masked:
				next[s] = true
			default:
				for to, ok := range r.reach[s] {
					if ok {
						next[int32(to)] = true
					}
				}
			}
		}
		states, masked = next, t == mask
	}
	for s := range states {
		if l.Accepts(s) {
			return true
		}
	}
	return false
}
