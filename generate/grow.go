package generate

import (
	"slices"

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Resize is a position that changed the length of a sequence in a step. Positions are those before
// the step, with the changes of positions before it already made, so that a list can be applied one
// after the other.
type Resize struct {
	Position int `json:"position"`
	Into     int `json:"into"` // masks that it became: 0, it was removed, or 2
}

// Follow applies resizes to values of positions, such as the steps at which they opened. New
// positions have the value `fresh`.
func Follow[T any](values []T, resizes []Resize, fresh T) []T {
	for _, r := range resizes {
		values = slices.Replace(values, r.Position, r.Position+1,
			slices.Repeat([]T{fresh}, r.Into)...)
	}
	return values
}

// growwork holds what a task needs whose holes grow (samplers.DreamOn).
type growwork struct {
	model.Growth
	each    int
	spill   bool
	longest int // positions
	budget  int // of expansions
}

// newGrowwork returns the growwork of a recipe whose sampler lets holes grow.
func newGrowwork(spec model.Spec, d samplers.DreamOn, l layout) *growwork {
	k := &growwork{Growth: *spec.Growth, each: d.Each, spill: d.Spill == 1, budget: d.Budget}
	k.longest = min(len(l.start)-len(l.free)+d.New, spec.Length())
	if k.budget == 0 && len(l.free) > 0 {
		k.budget = 2 * max(k.longest-l.free[0], 0)
	}
	return k
}

// maxSteps returns the most steps that a sequence takes.
func (k *growwork) maxSteps(l layout) int {
	if len(l.free) == 0 {
		return 0
	}
	return 2*max(k.longest-l.free[0], len(l.free)) + 2*k.budget
}

// growLoop opens a few positions of the whole sequence at a time. Then positions that became the
// model's delete token are removed, and those that became its expand token turn into two masks. The
// given text stays, whatever its tokens.
type growLoop struct {
	*member
	*growwork
	left   int // expansions
	forbid [1]int32
}

func (g *growLoop) next() span {
	n := len(g.Tokens)
	s := span{network: g.task.network, n: g.N + 1, of: g.steps, size: len(g.free), to: len(g.free),
		end: n, seen: n}
	if n >= g.longest || g.left == 0 {
		g.forbid[0] = g.Expand
		s.forbid = g.forbid[:]
	}
	return s
}

func (g *growLoop) quota() int { return min(g.each, len(g.step.masked)) }

func (g *growLoop) feed(rows []int32, _ int) []int32 { return rows }

func (g *growLoop) kept() { g.step.work.Full++ }

func (g *growLoop) check() error { return nil }

func (g *growLoop) advance() {
	removed := g.removals()
	var tokens, start []int32
	var past []float64
	var free []int
	var opened []Opened
	g.Resized = g.Resized[:0]
	size, at := len(g.Tokens), 0 // at: position in what the list of changes has made so far
	for p, t := range g.Tokens {
		masked := slices.Contains(g.step.masked, p)
		switch {
		case masked && removed[p]:
			g.Resized, size = append(g.Resized, Resize{at, 0}), size-1
			continue
		case masked && t == g.Expand:
			t = g.mask
			if size < g.longest && g.left > 0 {
				g.Resized, size, g.left = append(g.Resized, Resize{at, 2}), size+1, g.left-1
				tokens, start, past = append(tokens, t), append(start, t), append(past, 0)
				free, at = append(free, at), at+1
			}
		}
		if i := slices.IndexFunc(g.Opened, func(o Opened) bool { return o.Position == p }); i >= 0 &&
			t != g.mask {
			o := g.Opened[i]
			o.Position = at
			opened = append(opened, o)
		}
		if g.start[p] == g.mask {
			free = append(free, at)
		}
		tokens, start, past = append(tokens, t), append(start, g.start[p]), append(past, g.past[p])
		at++
	}
	g.Tokens, g.past = tokens, past
	g.layout = layout{shape: []int{len(tokens)}, start: start, free: free}
	g.Sequence.Tokens, g.Opened = g.Tokens, opened
	g.member.left = g.masked()
}

// removals returns the positions that the step removes.
func (g *growLoop) removals() map[int]bool {
	removed := map[int]bool{}
	for _, p := range g.step.masked {
		if g.Tokens[p] == g.Delete || g.spill && len(removed) > 0 {
			removed[p] = true
		}
	}
	return removed
}

// checkGrowth returns an error for a sampler under which holes grow in another loop.
func (r Recipe) checkGrowth(d model.Denoiser) error {
	if _, ok := samplers.As[samplers.Grower](r.Sampler); !ok || d.Spec().Growth == nil ||
		r.Reuse == NoReuse {
		return nil
	}
	return &param.Error{Name: "reuse", Found: r.Reuse.String(),
		Want: "none with " + samplers.Text(r.Sampler) + ": positions move", Reason: param.NoEffect}
}
