// Package constrain draws sequences that belong to a language. With p_i the marginals at the
// masked positions, the law is the product of the p_i given that the sequence belongs to the
// language. What a sampler sees at a position is that law's marginal, and what it draws at several
// positions comes from that law together, so that a sequence can always be completed.
//
// Forward and backward sums over the states of an automaton give both (Rabiner 1989, "A tutorial
// on hidden Markov models"): F_i(s) is the probability of the positions before i with an end in
// state s, B_i(s) that of the positions from i on. The marginal at i is p_i(v) times the sum over
// edges s -v-> t of F_i(s) B_(i+1)(t).
package constrain

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"unmask/grammar"
	"unmask/param"
)

// Language is what the positions From to To-1 of a sequence spell.
type Language struct {
	*grammar.Tokens
	FirstPosition, EndPosition int
	Choices                    *Choices // nil: the texts are not from a list

	// Text is the automaton of the texts where spaces and newlines stand for a missing end; nil
	// where tokens end them.
	Text *grammar.DFA
}

// Bytes returns about how much memory the language holds.
func (l *Language) Bytes() int {
	n := l.Tokens.Bytes()
	if l.Text != nil {
		n += l.Text.Bytes()
	}
	if l.Choices != nil {
		n += l.Choices.Bytes()
	}
	return n
}

// Work returns how many edges a step looks at, at most.
func (l *Language) Work() int { return (l.EndPosition - l.FirstPosition) * l.Edges() }

// Trim returns what the positions spell without the spaces and newlines that stand for a missing
// end: those after the longest text of the language.
func (l *Language) Trim(text string) string {
	if l.Text == nil {
		return text
	}
	longest, s := -1, l.Text.Start()
	for i, least := 0, len(strings.TrimRight(text, " \n")); s >= 0; i++ {
		if i >= least && l.Text.Accepts(s) {
			longest = i
		}
		if i == len(text) {
			break
		}
		s = l.Text.Next(s, text[i])
	}
	if longest < 0 {
		return text
	}
	return text[:longest]
}

// Check returns an error if tokens, with mask where they are not known, cannot be completed.
func (l *Language) Check(tokens []int32, mask int32) error {
	room := l.EndPosition - l.FirstPosition
	if least := int(l.MinTokens[l.Start]); least > room {
		return &param.Error{Name: "length", Found: fmt.Sprintf("%d tokens to fill", room),
			Want: fmt.Sprintf("%d or more, the shortest text of the grammar", least)}
	}
	if l.completes(tokens[l.FirstPosition:l.EndPosition], mask) {
		return nil
	}
	if l.completes(slices.Repeat([]int32{mask}, room), mask) {
		return &param.Error{Name: "known text", Found: "against the grammar",
			Want: "one that the grammar allows"}
	}
	return &param.Error{Name: "length", Found: fmt.Sprintf("%d tokens to fill", room),
		Want: "another number: no text of the grammar has just as many"}
}

// completes reports whether tokens, with mask where they are not known, belong to the language. It
// takes memory for the states of two positions, whatever the length.
func (l *Language) completes(tokens []int32, mask int32) bool {
	var c Chain
	c.begin(l, tokens, mask)
	return c.reach(false) && slices.ContainsFunc(c.states[len(tokens)], l.Accepts)
}

// Evidence is what is known of a position's marginal: of each class of tokens, the sum and the
// largest of the probabilities.
type Evidence struct {
	Sum, Top []float64
}

// floor stands for a probability of 0, so that a filter cannot empty a language. least does for
// sums over positions.
const floor, least = 1e-60, 1e-250

// Chain holds the sums over states for one sequence.
type Chain struct {
	l      *Language
	tokens []int32 // [positions], mask where not known
	mask   int32
	sets   [][]float64 // [positions][sets] probabilities; nil: not known
	tops   [][]float64
	states [][]int32 // [positions+1] from which the end can be reached
	b      [][]float64
	at     []int32 // [states of the automaton] index in states of the position at hand, or -1

	f, spare []float64 // F of one position, and memory for that of the next
	ahead    int       // the position
}

// begin sets the language and the tokens.
func (c *Chain) begin(l *Language, tokens []int32, mask int32) {
	c.l, c.mask, c.tokens = l, mask, append(c.tokens[:0], tokens...)
	c.states = resize(c.states, len(tokens)+1)
	if len(c.at) != l.States() {
		c.at = make([]int32, l.States())
	}
	for i := range c.at {
		c.at[i] = -1
	}
}

// set computes the sums, given the evidence at masked positions, nil where there is none: there,
// all states from which a sequence can be completed count alike. It reports whether there is a
// sequence.
func (c *Chain) set(l *Language, tokens []int32, mask int32, evidence []*Evidence) bool {
	n := len(tokens)
	c.begin(l, tokens, mask)
	c.sets, c.tops, c.b = resize(c.sets, n), resize(c.tops, n), resize(c.b, n+1)
	for i := range n {
		c.sets[i], c.tops[i] = c.sets[i][:0], c.tops[i][:0]
		if evidence != nil && evidence[i] != nil && tokens[i] == mask {
			c.weigh(i, evidence[i])
		}
	}
	if !c.reach(true) {
		return false
	}
	c.backward()
	c.f, c.ahead = append(c.f[:0], 1), 0
	return len(c.states[0]) > 0
}

// bytes returns about how much memory the sums hold.
func (c *Chain) bytes() int {
	n := 4 * len(c.at)
	for i := range c.b {
		n += 8*cap(c.b[i]) + 4*cap(c.states[i])
	}
	for i := range c.sets {
		n += 16 * cap(c.sets[i])
	}
	return n
}

func resize[T any](s [][]T, n int) [][]T {
	for len(s) < n {
		s = append(s, nil)
	}
	return s[:n]
}

// weigh sets the probabilities of sets at a position.
func (c *Chain) weigh(i int, e *Evidence) {
	for _, set := range c.l.Sets {
		sum, top := floor, floor
		for _, k := range set {
			sum += e.Sum[k]
			top = max(top, e.Top[k])
		}
		c.sets[i], c.tops[i] = append(c.sets[i], sum), append(c.tops[i], top)
	}
}

// weight returns the probability of a set at a position, 1 for a token that is known.
func (c *Chain) weight(i int, set int32) float64 {
	if set < 0 || len(c.sets[i]) == 0 {
		return 1
	}
	return c.sets[i][set]
}

// next calls f for each edge that the position's token, or any, may take from a state.
func (c *Chain) next(i int, s int32, f func(e grammar.TokenEdge)) {
	if c.tokens[i] == c.mask {
		for _, e := range c.l.Out(s) {
			f(e)
		}
	} else if t := c.l.Next(s, c.tokens[i]); t >= 0 {
		f(grammar.TokenEdge{Set: -1, To: t})
	}
}

// edges calls f for each edge at a position by which the end can be reached, with the indices of
// the states before and after it.
func (c *Chain) edges(i int, f func(e grammar.TokenEdge, from int, to int32)) {
	c.index(i + 1)
	for k, s := range c.states[i] {
		c.next(i, s, func(e grammar.TokenEdge) {
			if j := c.at[e.To]; j >= 0 {
				f(e, k, j)
			}
		})
	}
	c.clear(i + 1)
}

// reach sets states to those that can be reached and are not too far from the end; without keep,
// those of the last position alone stay.
func (c *Chain) reach(keep bool) bool {
	n := len(c.tokens)
	c.states[0] = append(c.states[0][:0], c.l.Start)
	for i := range n {
		if !keep && i > 0 {
			c.states[i-1], c.states[i+1] = nil, c.states[i-1]
		}
		to := c.states[i+1][:0]
		for _, s := range c.states[i] {
			c.next(i, s, func(e grammar.TokenEdge) {
				if c.at[e.To] != int32(i) && int(c.l.MinTokens[e.To]) <= n-i-1 {
					c.at[e.To] = int32(i)
					to = append(to, e.To)
				}
			})
		}
		if c.states[i+1] = to; len(to) == 0 {
			return false
		}
	}
	for i := range c.at {
		c.at[i] = -1
	}
	return true
}

// index sets at to the indices of a position's states; clear undoes it.
func (c *Chain) index(i int) {
	for j, s := range c.states[i] {
		c.at[s] = int32(j)
	}
}

func (c *Chain) clear(i int) {
	for _, s := range c.states[i] {
		c.at[s] = -1
	}
}

// backward computes B and removes states without an end.
func (c *Chain) backward() {
	n := len(c.tokens)
	c.b[n] = c.b[n][:0]
	end := c.states[n][:0]
	for _, s := range c.states[n] {
		if c.l.Accepts(s) {
			end = append(end, s)
			c.b[n] = append(c.b[n], 1)
		}
	}
	c.states[n] = end
	for i := n - 1; i >= 0; i-- {
		c.index(i + 1)
		free := c.tokens[i] == c.mask && len(c.sets[i]) == 0
		from, b, largest := c.states[i][:0], c.b[i][:0], 0.0
		for _, s := range c.states[i] {
			sum, some := 0.0, false
			c.next(i, s, func(e grammar.TokenEdge) {
				j := c.at[e.To]
				if j < 0 {
					return
				}
				some = true
				switch {
				case free:
					sum = max(sum, c.b[i+1][j])
				case e.Set < 0:
					sum = c.b[i+1][j]
				default:
					sum += c.sets[i][e.Set] * c.b[i+1][j]
				}
			})
			if some {
				from, b = append(from, s), append(b, sum)
				largest = max(largest, sum)
			}
		}
		c.clear(i + 1)
		c.states[i], c.b[i] = from, scaled(b, largest)
	}
}

// scaled divides sums by the largest.
func scaled(x []float64, largest float64) []float64 {
	for i := range x {
		x[i] = max(x[i]/max(largest, least), least)
	}
	return x
}

// seek sets f to F of a position. It is computed from that of the position before, so positions
// should rise.
func (c *Chain) seek(position int) {
	if c.ahead > position {
		c.f, c.ahead = append(c.f[:0], 1), 0
	}
	for ; c.ahead < position; c.ahead++ {
		i := c.ahead
		f := append(c.spare[:0], make([]float64, len(c.states[i+1]))...)
		largest := 0.0
		c.edges(i, func(e grammar.TokenEdge, from int, to int32) {
			f[to] += c.f[from] * c.weight(i, e.Set)
			largest = max(largest, f[to])
		})
		c.f, c.spare = scaled(f, largest), c.f
	}
}

// Coefficients sets out [classes] to what p_i(v) is multiplied by in the marginal at position i, up
// to a common factor: the sums of F_i(s) B_(i+1)(t) over edges that read the class. At a position
// whose token is known it is what any token in its place would have, with the others as they are.
func (c *Chain) Coefficients(i int, out []float64) []float64 {
	out = append(out[:0], make([]float64, c.l.ClassCount)...)
	sets := make([]float64, len(c.l.Sets))
	c.seek(i)
	c.index(i + 1)
	largest := 0.0
	for k, s := range c.states[i] {
		for _, e := range c.l.Out(s) {
			if j := c.at[e.To]; j >= 0 {
				sets[e.Set] += max(c.f[k]*c.b[i+1][j], least)
				largest = max(largest, sets[e.Set])
			}
		}
	}
	c.clear(i + 1)
	for set, x := range sets {
		if x > 0 {
			for _, k := range c.l.Sets[set] {
				out[k] += x / largest
			}
		}
	}
	return out
}

// step is an edge that a path takes, with a uniform number that is still free.
type step struct {
	set     int32 // -1: the token is known
	uniform float64
}

// draw appends a path drawn from the law; uniform returns a position's number in (0, 1).
func (c *Chain) draw(path []step, uniform func(i int) float64) []step {
	s := c.states[0][0]
	var weights []float64
	var edges []grammar.TokenEdge
	for i := range c.tokens {
		c.index(i + 1)
		weights, edges = weights[:0], edges[:0]
		whole := 0.0
		c.next(i, s, func(e grammar.TokenEdge) {
			if j := c.at[e.To]; j >= 0 {
				w := max(c.b[i+1][j]*c.weight(i, e.Set), least*least)
				weights, edges = append(weights, w), append(edges, e)
				whole += w
			}
		})
		c.clear(i + 1)
		u, k := 0.0, 0
		if edges[0].Set >= 0 {
			u = uniform(i) * whole
			for ; k < len(edges)-1 && u >= weights[k]; k++ {
				u -= weights[k]
			}
			u = min(max(u/weights[k], 0x1p-60), 1-0x1p-53)
		}
		s = edges[k].To
		path = append(path, step{edges[k].Set, u})
	}
	return path
}

// best appends the path of the most probable sequence.
func (c *Chain) best(path []step) []step {
	type hop struct{ set, to int32 }
	n := len(c.tokens)
	after := make([]float64, len(c.states[n])) // the best from each state of the position after
	through := make([][]hop, n)                // the edge to it
	for i := n - 1; i >= 0; i-- {
		logs := c.logTops(i)
		here := slices.Repeat([]float64{math.Inf(-1)}, len(c.states[i]))
		through[i] = make([]hop, len(c.states[i]))
		c.edges(i, func(e grammar.TokenEdge, from int, to int32) {
			v := after[to]
			if e.Set >= 0 && logs != nil {
				v += logs[e.Set]
			}
			if v > here[from] {
				here[from], through[i][from] = v, hop{e.Set, to}
			}
		})
		after = here
	}
	at := int32(0)
	for i := range n {
		path, at = append(path, step{set: through[i][at].set}), through[i][at].to
	}
	return path
}

// logTops returns the logarithms of the largest probabilities of sets, nil where they are not
// known.
func (c *Chain) logTops(i int) (logs []float64) {
	logs = slices.Grow(logs, len(c.tops[i]))
	for _, x := range c.tops[i] {
		logs = append(logs, math.Log(x))
	}
	return logs
}
