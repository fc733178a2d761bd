package generate

import (
	"slices"

	"unmask/model"
	"unmask/samplers"
)

// Resize is a position that changed the length of a sequence in a step, or its end, where masks
// were appended. Positions are those before the step, with the changes of positions before it
// already made, so that a list can be applied one after the other.
type Resize struct {
	Position int `json:"position"`
	Into     int `json:"into"` // masks that it became; 0: it was removed
}

// ApplyResizes applies resizes to values of positions, such as the steps at which they opened. New
// positions have the value `fresh`.
func ApplyResizes[T any](values []T, resizes []Resize, fresh T) []T {
	for _, r := range resizes {
		values = slices.Replace(values, r.Position, min(r.Position+1, len(values)),
			slices.Repeat([]T{fresh}, r.Into)...)
	}
	return values
}

// growLoop opens a few positions of the whole sequence at a time. Then positions that became the
// model's delete token are removed, and those that became its expand token turn into two masks. The
// given text stays, whatever its tokens.
type growLoop struct {
	wholeLoop
	model.Growth
	each    int
	spill   bool
	longest int // positions
	left    int // expansions
	forbid  [1]int32
}

// newGrowLoop returns the loop of a recipe whose sampler lets holes grow (samplers.DreamOn),
// without its member.
func newGrowLoop(spec model.Spec, d samplers.DreamOn, l layout) growLoop {
	g := growLoop{Growth: *spec.Growth, each: d.Each, spill: d.Spill == 1, left: d.Budget}
	g.longest = min(len(l.start)-len(l.free)+d.New, spec.Length())
	if g.left == 0 && len(l.free) > 0 {
		g.left = 2 * max(g.longest-l.free[0], 0)
	}
	return g
}

func (g *growLoop) next() span {
	s := g.all()
	if len(g.Tokens) >= g.longest || g.left == 0 {
		g.forbid[0] = g.Expand
		s.forbid = g.forbid[:]
	}
	return s
}

func (g *growLoop) quota() int { return min(g.each, len(g.step.masked)) }

func (g *growLoop) check() error { return nil }

func (g *growLoop) advance() {
	removed := g.removals()
	var list []Resize
	size, moved := len(g.Tokens), 0
	for _, p := range g.step.masked {
		into := 1
		switch {
		case removed[p]:
			into = 0
		case g.Tokens[p] != g.Expand:
			continue
		case size < g.longest && g.left > 0:
			into, g.left = 2, g.left-1
		}
		list = append(list, Resize{p + moved, into})
		size, moved = size+into-1, moved+into-1
	}
	g.resize(list)
	g.Resized = slices.DeleteFunc(g.Resized, func(r Resize) bool { return r.Into == 1 })
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
