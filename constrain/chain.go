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

// Language is what the positions FirstPosition to EndPosition-1 of a sequence spell.
type Language struct {
	*grammar.Tokens

	FirstPosition int
	EndPosition   int

	// Beyond is the number of positions behind EndPosition, not laid out yet, on which a text goes on
	// that has not ended there and can end on them. 0 means that all of it stands before EndPosition.
	Beyond int

	// Choices are the texts of a language that is a list; nil for any other.
	Choices *Choices

	// Text is the automaton of the texts where spaces and newlines stand for a missing end; nil
	// where tokens end them.
	Text *grammar.DFA
}

// positions returns how many positions the language has.
func (l *Language) positions() int { return l.EndPosition - l.FirstPosition }

// mayStop reports whether what stands before EndPosition may stop in a state.
func (l *Language) mayStop(state int32) bool {
	missing := int(l.MinTokens[state])
	return missing <= l.Beyond && (missing > 0) == (l.Beyond > 0)
}

// ShortestRest returns how many tokens a text still needs after those of the language's positions,
// -1 where these are none of a text: masked ones, or ones that the language forbids.
func (l *Language) ShortestRest(tokens []int32) int {
	state := l.Start
	for _, token := range tokens[l.FirstPosition:l.EndPosition] {
		state = l.Next(state, token)
		if state < 0 {
			return -1
		}
	}
	return int(l.MinTokens[state])
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
func (l *Language) Work() int { return l.positions() * l.Edges() }

// Trim returns what the positions spell without the spaces and newlines that stand for a missing
// end: those after the longest text of the language.
func (l *Language) Trim(text string) string {
	if l.Text == nil {
		return text
	}

	// A text may itself end in spaces, so the cut may lie anywhere behind the last other byte.
	minEnd := len(strings.TrimRight(text, " \n"))
	longest := -1
	state := l.Text.Start()
	for i := 0; state >= 0; i++ {
		if i >= minEnd && l.Text.Accepts(state) {
			longest = i
		}
		if i == len(text) {
			break
		}
		state = l.Text.Next(state, text[i])
	}
	if longest < 0 {
		return text
	}
	return text[:longest]
}

// Check returns an error if tokens, with mask where they are not known, cannot be completed. It
// says whether the length or the known text is at fault, as a user can change either.
func (l *Language) Check(tokens []int32, mask int32) error {
	count := l.positions()
	if shortest := int(l.MinTokens[l.Start]); shortest > count {
		return &param.Error{Name: "length", Found: fmt.Sprintf("%d tokens to fill", count),
			Want: fmt.Sprintf("%d or more, the shortest text of the grammar", shortest)}
	}
	if l.completes(tokens[l.FirstPosition:l.EndPosition], mask) {
		return nil
	}
	if l.completes(slices.Repeat([]int32{mask}, count), mask) {
		return &param.Error{Name: "known text", Found: "against the grammar",
			Want: "one that the grammar allows"}
	}
	return &param.Error{Name: "length", Found: fmt.Sprintf("%d tokens to fill", count),
		Want: "another number: no text of the grammar has just as many"}
}

// completes reports whether tokens, with mask where they are not known, belong to the language. It
// takes memory for the states of two positions, whatever the length.
func (l *Language) completes(tokens []int32, mask int32) bool {
	var c Chain
	c.begin(l, tokens, mask)
	return c.findStates(false) && slices.ContainsFunc(c.states[len(tokens)], l.mayStop)
}

// Evidence is what is known of a position's marginal.
type Evidence struct {
	// Sum is the sum of the probabilities of each class of tokens, [classes], and Outside that of
	// tokens without a class.
	Sum     []float64
	Outside float64

	// Top is the most probable token of each class, [classes].
	Top []TopToken
}

// TopToken is the most probable of some tokens, the first one of several; its Token is -1 where
// there is none.
type TopToken struct {
	Token int32
	Logit float32
	P     float64
}

var noToken = TopToken{Token: -1, Logit: float32(math.Inf(-1))}

// NewEvidence returns evidence of a number of classes, without a token yet.
func NewEvidence(classes int) *Evidence {
	e := &Evidence{Sum: make([]float64, classes), Top: make([]TopToken, classes)}
	e.reset()
	return e
}

// reset makes the evidence that of a position of which nothing is known.
func (e *Evidence) reset() {
	clear(e.Sum)
	e.Outside = 0
	for k := range e.Top {
		e.Top[k] = noToken
	}
}

// Add counts a token of a class. Tokens come in ascending order.
func (e *Evidence) Add(class int32, t TopToken) {
	e.Sum[class] += t.P
	if t.comesBefore(e.Top[class]) {
		e.Top[class] = t
	}
}

// comesBefore reports whether a token is taken rather than another one. Logits differ where
// probabilities are too small to; of equal ones the first token is taken.
func (t TopToken) comesBefore(other TopToken) bool {
	switch {
	case other.Token < 0:
		return t.Token >= 0
	case t.Token < 0:
		return false
	case t.Logit != other.Logit:
		return t.Logit > other.Logit
	}
	return t.Token < other.Token
}

// minProbability stands for a probability of 0, so that a filter cannot empty a language. minSum
// does for sums over positions.
const (
	minProbability = 1e-60
	minSum         = 1e-250
)

// Chain holds the sums over states for one sequence. Sums of a position are scaled, so that a long
// text does not underflow; only their ratios count.
type Chain struct {
	l      *Language
	tokens []int32 // [positions], mask where not known
	mask   int32

	// sets are the sums of the probabilities of each set of classes, and tops their most probable
	// tokens, [positions][sets]. A position's are empty where nothing is known of its marginal.
	sets [][]float64
	tops [][]TopToken

	// hasAlternatives says that states has also those to and from which other tokens than the known
	// ones lead, so that Coefficients may be asked for known positions.
	hasAlternatives bool

	// states are those before each position, [positions+1], from which the end can be reached.
	states [][]int32

	// backward is B for each of states, [positions+1][states]; 0 where alternatives alone lead on.
	backward [][]float64

	// indexOf is the index of each of the automaton's states in the states of the position at hand,
	// or -1. setIndexes sets it and clearIndexes clears it.
	indexOf []int32

	// forward is F for each state of forwardAt, [states], and spare the memory of the next one.
	forward   []float64
	spare     []float64
	forwardAt int
}

// begin sets the language and the tokens.
func (c *Chain) begin(l *Language, tokens []int32, mask int32) {
	c.l = l
	c.mask = mask
	c.tokens = append(c.tokens[:0], tokens...)
	c.states = resizeRows(c.states, len(tokens)+1)
	if len(c.indexOf) != l.States() {
		c.indexOf = make([]int32, l.States())
	}
	for i := range c.indexOf {
		c.indexOf[i] = -1
	}
}

// computeSums computes the sums, given the evidence at masked positions, nil where there is none:
// there, all states from which a sequence can be completed count alike. It reports whether there is
// a sequence.
func (c *Chain) computeSums(l *Language, tokens []int32, mask int32, evidence []*Evidence) bool {
	c.backward = resizeRows(c.backward, len(tokens)+1)
	if !c.readEvidence(l, tokens, mask, evidence) {
		return false
	}
	c.computeBackward()
	c.restartForward()
	return len(c.states[0]) > 0
}

// readEvidence sets what the sums are computed from: the tokens, the evidence and the states. It
// reports whether there is a state at each position.
func (c *Chain) readEvidence(l *Language, tokens []int32, mask int32, evidence []*Evidence) bool {
	n := len(tokens)
	c.begin(l, tokens, mask)
	c.sets = resizeRows(c.sets, n)
	c.tops = resizeRows(c.tops, n)
	for i := range n {
		c.sets[i] = c.sets[i][:0]
		c.tops[i] = c.tops[i][:0]
		if evidence != nil && evidence[i] != nil && tokens[i] == mask {
			c.setProbabilities(i, evidence[i])
		}
	}
	return c.findStates(true)
}

// bytes returns about how much memory the sums hold.
func (c *Chain) bytes() int {
	n := 4 * len(c.indexOf)
	for i := range c.backward {
		n += 8*cap(c.backward[i]) + 4*cap(c.states[i])
	}
	for i := range c.sets {
		n += 24 * cap(c.sets[i])
	}
	return n
}

// resizeRows returns n rows, of which the ones that were there keep their memory.
func resizeRows[T any](rows [][]T, n int) [][]T {
	for len(rows) < n {
		rows = append(rows, nil)
	}
	return rows[:n]
}

// setProbabilities sets the probabilities of sets at a position.
func (c *Chain) setProbabilities(i int, e *Evidence) {
	for _, set := range c.l.Sets {
		sum := minProbability
		top := noToken
		for _, k := range set {
			sum += e.Sum[k]
			if e.Top[k].comesBefore(top) {
				top = e.Top[k]
			}
		}
		c.sets[i] = append(c.sets[i], sum)
		c.tops[i] = append(c.tops[i], top)
	}
}

// probability returns the probability of a set at a position, 1 for a token that is known.
func (c *Chain) probability(i int, set int32) float64 {
	if set < 0 || len(c.sets[i]) == 0 {
		return 1
	}
	return c.sets[i][set]
}

// visitEdges calls f for each edge that the position's token, or any if it is masked, may take from
// a state.
func (c *Chain) visitEdges(i int, state int32, f func(e grammar.TokenEdge)) {
	if c.tokens[i] == c.mask {
		for _, e := range c.l.Out(state) {
			f(e)
		}
		return
	}
	if next := c.l.Next(state, c.tokens[i]); next >= 0 {
		f(grammar.TokenEdge{Set: -1, To: next})
	}
}

// visitReaching is visitEdges, at a known position with the edges of other tokens where they count.
func (c *Chain) visitReaching(i int, state int32, f func(e grammar.TokenEdge)) {
	if !c.hasAlternatives {
		c.visitEdges(i, state, f)
		return
	}
	for _, e := range c.l.Out(state) {
		f(e)
	}
}

// visitLiveEdges calls f for each edge at a position by which the end can be reached, with the
// indexes of the states before and after it.
func (c *Chain) visitLiveEdges(i int, f func(e grammar.TokenEdge, fromIndex int, toIndex int32)) {
	c.setIndexes(i + 1)
	for fromIndex, state := range c.states[i] {
		c.visitEdges(i, state, func(e grammar.TokenEdge) {
			if toIndex := c.indexOf[e.To]; toIndex >= 0 {
				f(e, fromIndex, toIndex)
			}
		})
	}
	c.clearIndexes(i + 1)
}

// findStates sets states to those that can be reached and are not too far from the end; unless
// keepAll, those of the last position alone stay. It reports whether there is one at each position.
func (c *Chain) findStates(keepAll bool) bool {
	n := len(c.tokens)
	c.states[0] = append(c.states[0][:0], c.l.Start)
	for i := range n {
		if !keepAll && i > 0 {
			c.states[i+1] = c.states[i-1] // memory that is not needed any more
			c.states[i-1] = nil
		}
		next := c.states[i+1][:0]
		for _, state := range c.states[i] {
			c.visitReaching(i, state, func(e grammar.TokenEdge) {
				// Until the end of this method indexOf marks the states that next has.
				isNew := c.indexOf[e.To] != int32(i)
				if isNew && int(c.l.MinTokens[e.To]) <= n-i-1+c.l.Beyond {
					c.indexOf[e.To] = int32(i)
					next = append(next, e.To)
				}
			})
		}
		c.states[i+1] = next
		if len(next) == 0 {
			return false
		}
	}
	for i := range c.indexOf {
		c.indexOf[i] = -1
	}
	return true
}

// setIndexes sets indexOf for a position's states; clearIndexes undoes it, in time for these alone.
func (c *Chain) setIndexes(i int) {
	for j, state := range c.states[i] {
		c.indexOf[state] = int32(j)
	}
}

// clearIndexes takes the states of place i out of indexOf, so that it costs as much as there are
// states, not as much as indexOf is long.
func (c *Chain) clearIndexes(i int) {
	for _, state := range c.states[i] {
		c.indexOf[state] = -1
	}
}

// computeBackward computes B and removes states without an end.
func (c *Chain) computeBackward() {
	n := len(c.tokens)
	c.backward[n] = c.backward[n][:0]
	accepting := c.states[n][:0]
	for _, state := range c.states[n] {
		if c.l.mayStop(state) {
			accepting = append(accepting, state)
			c.backward[n] = append(c.backward[n], 1)
		}
	}
	c.states[n] = accepting

	for i := n - 1; i >= 0; i-- {
		c.setIndexes(i + 1)
		live := c.states[i][:0]
		sums := c.backward[i][:0]
		largest := 0.0
		for _, state := range c.states[i] {
			sum, isLive := c.backwardSum(i, state)
			if isLive || c.hasAlternatives {
				live = append(live, state)
				sums = append(sums, sum)
				largest = max(largest, sum)
			}
		}
		c.clearIndexes(i + 1)
		c.states[i] = live
		if c.hasAlternatives {
			c.backward[i] = scaleReached(sums, largest)
		} else {
			c.backward[i] = scaleSums(sums, largest)
		}
	}
}

// backwardSum returns B of a state before position i, unscaled, and whether the end can be reached
// from it. setIndexes(i+1) was called.
func (c *Chain) backwardSum(i int, state int32) (sum float64, isLive bool) {
	nextSums := c.backward[i+1]
	isUnknown := c.tokens[i] == c.mask && len(c.sets[i]) == 0
	c.visitEdges(i, state, func(e grammar.TokenEdge) {
		toIndex := c.indexOf[e.To]
		if toIndex < 0 || nextSums[toIndex] == 0 {
			return
		}
		isLive = true
		switch {
		case isUnknown:
			sum = max(sum, nextSums[toIndex])
		case e.Set < 0:
			sum = nextSums[toIndex]
		default:
			sum += c.sets[i][e.Set] * nextSums[toIndex]
		}
	})
	return sum, isLive
}

// scaleSums divides sums by the largest, in place. None becomes 0: every state here leads to an
// end, and an improbable text must not look like one that the language forbids.
func scaleSums(x []float64, largest float64) []float64 {
	for i := range x {
		x[i] = max(x[i]/max(largest, minSum), minSum)
	}
	return x
}

// restartForward sets forward to F before the first position.
func (c *Chain) restartForward() {
	c.forward = append(c.forward[:0], 1)
	c.forwardAt = 0
}

// seekForward sets forward to F of a position. It is computed from that of the position before, so
// callers should go through positions from left to right.
func (c *Chain) seekForward(position int) {
	if c.forwardAt > position {
		c.restartForward()
	}
	for ; c.forwardAt < position; c.forwardAt++ {
		next := c.sumsAfter(c.forwardAt, c.forward, c.spare)
		c.spare = c.forward
		c.forward = next
	}
}

// sumsAfter returns the sums for the states after position i, given those before it, in the memory
// of out. A state before it with a sum of 0 is one that the tokens so far do not lead to.
func (c *Chain) sumsAfter(i int, sumsBefore, out []float64) []float64 {
	next := append(out[:0], make([]float64, len(c.states[i+1]))...)
	largest := 0.0
	c.setIndexes(i + 1)
	for fromIndex, state := range c.states[i] {
		if sumsBefore[fromIndex] == 0 {
			continue
		}
		c.visitEdges(i, state, func(e grammar.TokenEdge) {
			if toIndex := c.indexOf[e.To]; toIndex >= 0 {
				next[toIndex] += sumsBefore[fromIndex] * c.probability(i, e.Set)
				largest = max(largest, next[toIndex])
			}
		})
	}
	c.clearIndexes(i + 1)
	return scaleReached(next, largest)
}

// sumsAfterToken is sumsAfter where a token was drawn at position i, which is masked.
func (c *Chain) sumsAfterToken(i int, token int32, sumsBefore, out []float64) []float64 {
	isRead := make([]bool, len(c.l.Sets)) // for each set, whether the token is in it
	for set, classes := range c.l.Sets {
		_, isRead[set] = slices.BinarySearch(classes, c.l.Class[token])
	}
	next := append(out[:0], make([]float64, len(c.states[i+1]))...)
	largest := 0.0
	c.setIndexes(i + 1)
	for fromIndex, state := range c.states[i] {
		if sumsBefore[fromIndex] == 0 {
			continue
		}
		for _, e := range c.l.Out(state) {
			if toIndex := c.indexOf[e.To]; toIndex >= 0 && isRead[e.Set] {
				next[toIndex] += sumsBefore[fromIndex]
				largest = max(largest, next[toIndex])
			}
		}
	}
	c.clearIndexes(i + 1)
	return scaleReached(next, largest)
}

// scaleReached is scaleSums for sums of which 0 means that no tokens lead to a state, or from it.
func scaleReached(x []float64, largest float64) []float64 {
	for i := range x {
		if x[i] > 0 {
			x[i] = max(x[i]/largest, minSum)
		}
	}
	return x
}

// Coefficients sets out [classes] to what p_i(v) is multiplied by in the marginal at position i, up
// to a common factor: the sums of F_i(s) B_(i+1)(t) over edges that read the class. At a position
// whose token is known it is what any token in its place would have, with the others as they are; a
// chain without alternatives has only those tokens there that lead to the same states.
func (c *Chain) Coefficients(i int, out []float64) []float64 {
	c.seekForward(i)
	return c.coefficientsFrom(i, c.forward, out)
}

// coefficientsFrom is Coefficients with other sums for the states before position i.
func (c *Chain) coefficientsFrom(i int, sumsBefore, out []float64) []float64 {
	out = append(out[:0], make([]float64, c.l.ClassCount)...)
	sets := make([]float64, len(c.l.Sets))
	c.setIndexes(i + 1)
	largest := 0.0
	for fromIndex, state := range c.states[i] {
		if sumsBefore[fromIndex] == 0 {
			continue
		}
		for _, e := range c.l.Out(state) {
			if toIndex := c.indexOf[e.To]; toIndex >= 0 && c.backward[i+1][toIndex] > 0 {
				sets[e.Set] += max(sumsBefore[fromIndex]*c.backward[i+1][toIndex], minSum)
				largest = max(largest, sets[e.Set])
			}
		}
	}
	c.clearIndexes(i + 1)
	for set, x := range sets {
		if x > 0 {
			for _, k := range c.l.Sets[set] {
				out[k] += x / largest
			}
		}
	}
	return out
}

// bestPath appends the sets that the most probable sequence reads, -1 where a token is known
// (Viterbi's algorithm, from the end). Of equally probable ones it is that whose first tokens come
// before, so that how the automaton is written does not show.
func (c *Chain) bestPath(path []int32) []int32 {
	type hop struct {
		set  int32
		next int32 // index of the state after it
		top  TopToken
	}
	n := len(c.tokens)
	// bestAfter is the best log p from each state after position i, and hops the first edge of the
	// best path from each state before it.
	bestAfter := make([]float64, len(c.states[n]))
	hops := make([][]hop, n)
	for i := n - 1; i >= 0; i-- {
		logTops := c.logTops(i)
		best := slices.Repeat([]float64{math.Inf(-1)}, len(c.states[i]))
		hops[i] = make([]hop, len(c.states[i]))
		c.visitLiveEdges(i, func(e grammar.TokenEdge, fromIndex int, toIndex int32) {
			logP := bestAfter[toIndex]
			top := noToken
			if e.Set >= 0 && logTops != nil {
				logP += logTops[e.Set]
				top = c.tops[i][e.Set]
			}
			isTie := logP == best[fromIndex] && top.comesBefore(hops[i][fromIndex].top)
			if logP > best[fromIndex] || isTie {
				best[fromIndex] = logP
				hops[i][fromIndex] = hop{e.Set, toIndex, top}
			}
		})
		bestAfter = best
	}

	state := int32(0) // index of the state before position i
	for i := range n {
		path = append(path, hops[i][state].set)
		state = hops[i][state].next
	}
	return path
}

// logTops returns the logarithms of the largest probabilities of sets, nil where they are not
// known.
func (c *Chain) logTops(i int) (logs []float64) {
	logs = slices.Grow(logs, len(c.tops[i]))
	for _, top := range c.tops[i] {
		logs = append(logs, math.Log(max(top.P, minProbability)))
	}
	return logs
}
