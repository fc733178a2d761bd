package main

import (
	"cmp"
	"math"
	"slices"

	"unmask/constrain"
	"unmask/samplers"
)

// rejecting is the decoding of Mündler et al. 2025, "Constrained decoding of diffusion LLMs with
// context-free grammars" (arXiv 2508.10111), for a regular language, as the authors' program has it
// (github.com/eth-sri/constrained-diffusion, llada/generate_constrained.py): a step opens positions
// one after another, each time the one with the most probable token of all, if what is open can
// still be completed; if not, the token is rejected and the next most probable one is tried. A
// stretch of masks counts as any text, however long. Masks that follow an end of text
// become the end too, here those of the block. The program gives up after 100 rejections, or where
// no token is left; here the run goes on, and takes the most probable token where none is left.
type rejecting struct {
	language *constrain.Language
	reach    [][]bool // [states][states] by any tokens
	ends     []bool   // [classes] tokens that end a text
}

func newRejecting(l *constrain.Language) *rejecting {
	r := &rejecting{language: l, ends: make([]bool, l.Classes)}
	for s := range int32(l.States()) {
		for _, e := range l.Out(s) {
			for _, k := range l.Sets[e.Set] {
				r.ends[k] = r.ends[k] || e.To == l.End() && s != l.End()
			}
		}
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

func (*rejecting) Blocks(free int) (n, size int) {
	return (free + block - 1) / block, block
}

func (*rejecting) Needs(int, int) samplers.Need { return samplers.Need{LogSum: true, Logits: true} }

// proposal is a token at a position, by its index in View.Masked.
type proposal struct {
	at    int
	token int32
	logP  float64
}

// Choose tries proposals, the most probable first, until the step's positions are open.
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
	for _, unfit := range []bool{false, true} { // any token only where none is left that fits
		for _, p := range all {
			at := v.Masked[p.at]
			if tokens[at] != v.Mask || len(o.Positions) >= v.Quota {
				continue
			}
			if tokens[at] = p.token; !unfit && !r.completes(tokens, v.Mask) {
				tokens[at] = v.Mask
				continue
			}
			o.Positions, o.Tokens = append(o.Positions, at), append(o.Tokens, p.token)
			o.LogP = append(o.LogP, p.logP)
			if r.isEnd(p.token) {
				r.end(v, &o, tokens, at)
			}
		}
	}
	return o, nil
}

func (r *rejecting) isEnd(token int32) bool {
	k := r.language.Class[token]
	return k >= 0 && r.ends[k]
}

// end opens the masks of the block after a position as the end of the text, as that position is.
func (r *rejecting) end(v *samplers.View, o *samplers.Opening, tokens []int32, at int) {
	for _, i := range v.Masked {
		if i > at && tokens[i] == v.Mask {
			tokens[i] = tokens[at]
			o.Positions, o.Tokens = append(o.Positions, i), append(o.Tokens, tokens[at])
			o.LogP = append(o.LogP, 0)
		}
	}
}

// completes reports whether tokens, with any text in the place of each stretch of masks, belong to
// the language. What follows the end of a text does not count.
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
		if t != mask && r.isEnd(t) {
			return len(next) > 0
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
