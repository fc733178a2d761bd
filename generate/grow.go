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

	// Into is the number of masks that it became; 0 means that it was removed.
	Into int `json:"into"`
}

// ApplyResizes applies resizes to values of positions, such as the steps at which they opened. New
// positions have the value `fresh`. The result may be in the memory of values.
func ApplyResizes[T any](values []T, resizes []Resize, fresh T) []T {
	for _, r := range resizes {
		end := min(r.Position+1, len(values)) // there is no value at the sequence's end
		values = slices.Replace(values, r.Position, end, slices.Repeat([]T{fresh}, r.Into)...)
	}
	return values
}

// growLoop opens a few positions of the whole sequence at a time. Then positions that became the
// model's delete token are removed, and those that became its expand token turn into two masks. The
// given text stays, whatever its tokens.
type growLoop struct {
	wholeLoop
	model.Growth

	// openPerStep is the number of positions that a step opens.
	openPerStep int

	// spillsDelete makes one deleted position delete those behind it that the step could open.
	spillsDelete bool

	// maxLength is the most positions of the sequence; expansionsLeft bounds how often a position
	// may still become two.
	maxLength      int
	expansionsLeft int

	// forbiddenToken is the memory of span.forbidden.
	forbiddenToken [1]int32
}

// newGrowLoop returns the loop of a recipe whose sampler lets holes grow (samplers.DreamOn),
// without its member.
func newGrowLoop(spec model.Spec, d samplers.DreamOn, l layout) growLoop {
	g := growLoop{
		Growth:         *spec.Growth,
		openPerStep:    d.Each,
		spillsDelete:   d.Spill == 1,
		maxLength:      min(len(l.startTokens)-len(l.free)+d.New, spec.Length()),
		expansionsLeft: d.Budget,
	}
	if g.expansionsLeft == 0 && len(l.free) > 0 {
		g.expansionsLeft = 2 * max(g.maxLength-l.free[0], 0)
	}
	return g
}

// nextSpan implements loop. Where the sequence may not grow any more, no position becomes the token
// that asks for it.
func (g *growLoop) nextSpan() span {
	s := g.wholeSpan()
	if len(g.Tokens) >= g.maxLength || g.expansionsLeft == 0 {
		g.forbiddenToken[0] = g.Expand
		s.forbidden = g.forbiddenToken[:]
	}
	return s
}

func (g *growLoop) quota() int { return min(g.openPerStep, len(g.step.masked)) }

func (g *growLoop) checkOpening() error { return nil }

// advance applies the expand and delete tokens of the step. An expand token for which there is no
// room any more becomes one mask again.
func (g *growLoop) advance() {
	removed := g.removedPositions()
	var list []Resize
	length := len(g.Tokens)
	moved := 0 // by how much the changes so far move later positions
	for _, p := range g.step.masked {
		masks := 1
		switch {
		case removed[p]:
			masks = 0
		case g.Tokens[p] != g.Expand:
			continue
		case length < g.maxLength && g.expansionsLeft > 0:
			masks = 2
			g.expansionsLeft--
		}
		list = append(list, Resize{Position: p + moved, Into: masks})
		length += masks - 1
		moved += masks - 1
	}
	g.applyResizes(list)
	g.Resized = slices.DeleteFunc(g.Resized, func(r Resize) bool { return r.Into == 1 })
}

// removedPositions returns the positions that the step removes.
func (g *growLoop) removedPositions() map[int]bool {
	removed := map[int]bool{}
	for _, p := range g.step.masked {
		if g.Tokens[p] == g.Delete || g.spillsDelete && len(removed) > 0 {
			removed[p] = true
		}
	}
	return removed
}
