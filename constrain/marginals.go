package constrain

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"unmask/grammar"
	"unmask/model"
)

// Sequence is what is kept of one constrained sequence between passes.
type Sequence struct {
	Language *Language
	Mask     int32

	// Sums are those of all sequences of a pool. If nil, the sequence has its own.
	Sums *SumCache

	// FilterOverruled counts the tokens that were drawn although the filters had left them no
	// probability.
	FilterOverruled int

	// Choices are the probabilities of a language of choices, by the first pass.
	Choices []Choice

	// tokens are the language's in the latest pass, and fresh the positions in the sequence whose
	// marginals that pass has, ascending.
	tokens []int32
	fresh  []int32

	// powers are those that this step or the one before has used.
	powers []*poweredChain
}

// poweredChain is the chain for marginals p^power.
type poweredChain struct {
	power float64

	// hasAlternatives is the chain's. A chain without is smaller, and all that masked positions need.
	hasAlternatives bool

	// idle counts the steps since it was used.
	idle int

	// evidence is [positions of the language]; from earlier passes where the latest has none.
	evidence []*Evidence

	// isRead says that evidence has what the latest pass knows.
	isRead bool

	// chain has the sums of the evidence; nil where they are not kept.
	chain *Chain

	// best are the sets that the most probable sequence reads; empty if it is not computed.
	best []int32
}

// SumCache keeps the chains that were used last. The sums over a large language take more memory
// than what they are computed from, so they are computed again where they do not fit.
type SumCache struct {
	// used are the chains that hold sums, the one that got them first in front.
	used []*poweredChain

	// spare is the memory of dropped sums, nil for none.
	spare *Chain
}

// maxSums bounds the memory of sums, in bytes, if there is more than one.
const maxSums = 32 << 20

// allot returns memory for the sums of w, which it takes from others if all have too much.
func (s *SumCache) allot(w *poweredChain) *Chain {
	bytes := 0
	for _, holder := range s.used {
		bytes += holder.chain.bytes()
	}
	for bytes > maxSums/2 { // the other half is for those of w
		bytes -= s.used[0].chain.bytes()
		s.drop(s.used[0])
	}
	c := s.spare
	s.spare = nil
	if c == nil {
		c = new(Chain)
	}
	s.used = append(s.used, w)
	return c
}

// drop forgets the sums of w.
func (s *SumCache) drop(w *poweredChain) {
	if i := slices.Index(s.used, w); i >= 0 {
		s.used = slices.Delete(s.used, i, i+1)
		s.spare = w.chain
		w.chain = nil
	}
}

// Close forgets what is kept of the sequence.
func (q *Sequence) Close() {
	for _, w := range q.powers {
		q.Sums.drop(w)
	}
	q.powers = nil
}

// BeginStep begins a step: powers that the last one did not use are dropped.
func (q *Sequence) BeginStep() {
	q.powers = slices.DeleteFunc(q.powers, func(w *poweredChain) bool {
		w.idle++
		if w.idle <= 1 {
			return false
		}
		q.Sums.drop(w)
		return true
	})
}

// BeginPass sets the tokens of the sequence in a new pass, and the positions whose marginals it
// has.
func (q *Sequence) BeginPass(tokens []int32, fresh []int32) {
	first := q.Language.FirstPosition
	end := q.Language.EndPosition
	q.tokens = append(q.tokens[:0], tokens[first:end]...)
	q.fresh = q.fresh[:0]
	for _, p := range fresh {
		if int(p) >= first && int(p) < end && tokens[p] == q.Mask {
			q.fresh = append(q.fresh, p)
		}
	}
	slices.Sort(q.fresh)
	q.fresh = slices.Compact(q.fresh)
	for _, w := range q.powers {
		w.isRead = false
		w.best = w.best[:0]
		q.Sums.drop(w)
	}
}

// MaskForbidden masks every token that the grammar forbids after those before it. A position at
// which knownTokens has a token keeps it.
//
// Tokens that were drawn one by one, each given the texts' marginals, may not go together. Going
// through them from the left keeps as many as an end can still follow.
func (q *Sequence) MaskForbidden(tokens, knownTokens []int32) {
	var c Chain
	l := q.Language
	if !c.computeSums(l, knownTokens[l.FirstPosition:l.EndPosition], q.Mask, nil) {
		return // nothing goes with what is known
	}

	states := c.states[0] // those that the tokens so far may lead to
	for i, proposed := range tokens[l.FirstPosition:l.EndPosition] {
		var byAny, byProposed []int32 // states after any token here, and after the proposed one
		c.setIndexes(i + 1)
		for _, state := range states {
			c.visitEdges(i, state, func(e grammar.TokenEdge) {
				if c.indexOf[e.To] >= 0 {
					byAny = append(byAny, e.To)
				}
			})
			if proposed == q.Mask {
				continue
			}
			if next := l.Next(state, proposed); next >= 0 && c.indexOf[next] >= 0 {
				byProposed = append(byProposed, next)
			}
		}
		c.clearIndexes(i + 1)

		states = byProposed
		if len(byProposed) == 0 {
			states = byAny
			if c.tokens[i] == q.Mask {
				tokens[l.FirstPosition+i] = q.Mask
			}
		}
		slices.Sort(states)
		states = slices.Compact(states)
	}
}

// Allows reports whether the language has a sequence with these tokens.
func (q *Sequence) Allows(tokens []int32) bool {
	return q.Language.completes(tokens[q.Language.FirstPosition:q.Language.EndPosition], q.Mask)
}

// Marginals are those of another Marginals given the languages of the sequences. All rows asked for
// are of sequences with a language; rows outside of the language's positions are as they were.
type Marginals struct {
	// Filtered are the marginals with the filters of the run, such as top-k, and Raw those without.
	Filtered model.Marginals
	Raw      model.Marginals

	Outcomes int

	// Length is the number of rows of a sequence.
	Length int

	// Sequence returns a sequence of the batch.
	Sequence func(index int) *Sequence

	// weights is the memory of draws, [rows][Outcomes].
	weights []float64

	// fit is the memory of FitProbability.
	fit Chain
}

// chain returns the chain of a sequence for a power, with its sums: at a position of the language
// that is masked or, with alternatives, known.
func (m *Marginals) chain(index, position int, power float64) (*poweredChain, error) {
	q := m.Sequence(index)
	w := q.chainOf(power, false)
	w.idle = 0
	if !w.isRead {
		if err := m.readEvidence(q, index, w); err != nil {
			return nil, err
		}
	}
	if q.tokens[position] != q.Mask {
		evidence := w.evidence
		w = q.chainOf(power, true)
		w.idle = 0
		w.evidence = evidence
	}
	if w.chain != nil {
		return w, nil
	}

	w.chain = q.Sums.allot(w)
	w.chain.hasAlternatives = w.hasAlternatives
	if !w.chain.computeSums(q.Language, q.tokens, q.Mask, w.evidence) {
		q.Sums.drop(w)
		return nil, &model.RowError{Row: int32(index * m.Length), Err: errNone}
	}
	if q.Language.Choices != nil && q.Choices == nil && power == 1 && !w.hasAlternatives {
		q.Choices = w.chain.choiceProbabilities()
	}
	return w, nil
}

// chainOf returns the sequence's chain for a power, a new one if there is none. One with
// alternatives reads the evidence of the other.
func (q *Sequence) chainOf(power float64, hasAlternatives bool) *poweredChain {
	if q.Sums == nil {
		q.Sums = new(SumCache)
	}
	for _, w := range q.powers {
		if w.power == power && w.hasAlternatives == hasAlternatives {
			return w
		}
	}
	w := &poweredChain{power: power, hasAlternatives: hasAlternatives}
	if !hasAlternatives {
		w.evidence = make([]*Evidence, len(q.tokens))
	}
	q.powers = append(q.powers, w)
	return w
}

// readEvidence reads the evidence of the latest pass.
func (m *Marginals) readEvidence(q *Sequence, index int, w *poweredChain) error {
	l := q.Language
	rows := make([]int32, len(q.fresh))
	for i, p := range q.fresh {
		rows[i] = int32(index*m.Length) + p
		e := &w.evidence[int(p)-l.FirstPosition]
		if *e == nil {
			*e = NewEvidence(l.ClassCount)
		}
	}
	var fault rowFault
	err := m.Filtered.Visit(rows, func(i int, logits []float32) {
		e := w.evidence[int(q.fresh[i])-l.FirstPosition]
		if err := e.sumClasses(l, logits[:m.Outcomes], w.power); err != nil {
			fault.report(rows[i], err)
		}
	})
	err = cmp.Or(err, fault.err())
	w.isRead = err == nil
	return err
}

// sumClasses sets the evidence to the sums of the probabilities p^power of classes.
func (e *Evidence) sumClasses(l *Language, logits []float32, power float64) error {
	e.reset()
	top := slices.Max(logits) // NaN if any is
	switch x := float64(top); {
	case math.IsNaN(x):
		return errNaN
	case math.IsInf(x, 1):
		return errInf
	case math.IsInf(x, -1): // the filters left nothing
		return nil
	}
	whole := 0.0
	for v, x := range logits {
		p := math.Exp(power * float64(x-top))
		whole += p
		if k := l.Class[v]; k >= 0 {
			e.Add(k, TopToken{Token: int32(v), Logit: x, P: p})
		} else {
			e.Outside += p
		}
	}
	e.Outside /= whole
	for k := range e.Sum {
		e.Sum[k] /= whole
		e.Top[k].P /= whole
	}
	return nil
}

// locate returns the sequence and the position, in its language, of a row; inside is false beyond
// it.
func (m *Marginals) locate(row int32) (index, position int, inside bool) {
	index = int(row) / m.Length
	l := m.Sequence(index).Language
	position = int(row)%m.Length - l.FirstPosition
	return index, position, position >= 0 && position < l.positions()
}

// Visit passes the marginals given the languages, as logits. Where a language changes them, that of
// the most probable token is 0, because float32 has the most digits there.
func (m *Marginals) Visit(rows []int32, visit func(i int, logits []float32)) error {
	coefficients, err := m.logCoefficients(rows)
	if err != nil {
		return err
	}
	indexes := model.Indexes(0, len(rows))
	return m.visitWeighted(rows, indexes, coefficients, func(i int, logits []float32,
		weighted []float64) {
		for v, x := range weighted {
			logits[v] = float32(x)
		}
		visit(i, logits)
	})
}

// visitWeighted passes the logits of the rows with some indexes and, where a language changes them,
// the changed ones in 64 bits, the largest of which is 0; nil elsewhere.
func (m *Marginals) visitWeighted(rows []int32, indexes []int, coefficients [][]float64,
	visit func(i int, logits []float32, weighted []float64)) error {
	_, err := m.visitUntil(rows, indexes, func(i int, logits []float32, isLast bool) bool {
		if coefficients[i] == nil {
			visit(i, logits, nil)
			return true
		}
		buffer, _ := weightedRows.Get().(*[]float64)
		if buffer == nil {
			buffer = new([]float64)
		}
		defer weightedRows.Put(buffer)
		class := m.Sequence(int(rows[i]) / m.Length).Language.Class
		weighted := addLogs((*buffer)[:0], logits, coefficients[i], class)
		*buffer = weighted

		top := slices.Max(weighted)
		if math.IsInf(top, -1) && !isLast {
			return false
		}
		for v := range weighted {
			weighted[v] -= top
		}
		visit(i, logits, weighted)
		return true
	})
	return err
}

// weightedRows is memory of visitWeighted, whose visits may run at once.
var weightedRows sync.Pool

// addLogs appends to out the logits with the logarithms of their classes' coefficients added.
func addLogs(out []float64, logits []float32, logs []float64, class []int32) []float64 {
	for v, x := range logits {
		weighted := math.Inf(-1)
		if k := class[v]; k >= 0 {
			weighted = float64(x) + logs[k]
		}
		out = append(out, weighted)
	}
	return out
}

// visitUntil passes the filtered logits of the rows with some indexes to take and, for those for
// which it returns false, the logits before the filters, and at last equal ones: where the filters
// left nothing that the language allows, they give way, because a text must be completed. It
// returns the indexes of the rows where they did.
func (m *Marginals) visitUntil(rows []int32, indexes []int,
	take func(i int, logits []float32, isLast bool) bool) (gaveWay []int, err error) {
	for attempt, marginals := range []model.Marginals{m.Filtered, m.Raw, m.Raw} {
		askedRows := make([]int32, len(indexes))
		for k, i := range indexes {
			askedRows[k] = rows[i]
		}
		accepted := make([]bool, len(indexes))
		isLast := attempt == 2
		err := marginals.Visit(askedRows, func(k int, logits []float32) {
			logits = logits[:m.Outcomes]
			if isLast {
				clear(logits)
			}
			accepted[k] = take(indexes[k], logits, isLast)
		})

		var remaining []int
		for k, i := range indexes {
			if !accepted[k] {
				remaining = append(remaining, i)
			}
		}
		if attempt == 0 {
			gaveWay = remaining
		}
		indexes = remaining
		if err != nil || len(indexes) == 0 {
			return gaveWay, err
		}
	}
	return gaveWay, nil
}

// isKnown reports whether a row is a position of its language whose token is known.
func (m *Marginals) isKnown(row int32) bool {
	index, position, inside := m.locate(row)
	if !inside {
		return false
	}
	q := m.Sequence(index)
	return q.tokens[position] != q.Mask
}

// orderOf returns the indexes of rows in the order in which they are computed: by sequence, the
// masked ones first, because known ones have a chain of their own and there may be no room for
// both, and from left to right, in which forward sums go on.
func (m *Marginals) orderOf(rows []int32) []int {
	knownFlag := make([]int, len(rows)) // 1 for a row that is known
	for i, row := range rows {
		if m.isKnown(row) {
			knownFlag[i] = 1
		}
	}
	order := model.Indexes(0, len(rows))
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(rows[i]/int32(m.Length), rows[j]/int32(m.Length)),
			cmp.Compare(knownFlag[i], knownFlag[j]), cmp.Compare(rows[i], rows[j]))
	})
	return order
}

// logCoefficients returns the logarithms of the coefficients of rows' classes, nil for a row whose
// marginal is the network's: one outside of its language, or at which all tokens weigh alike.
func (m *Marginals) logCoefficients(rows []int32) ([][]float64, error) {
	list := make([][]float64, len(rows))
	for _, i := range m.orderOf(rows) {
		index, position, inside := m.locate(rows[i])
		if !inside {
			continue
		}
		w, err := m.chain(index, position, 1)
		if err != nil {
			return nil, err
		}
		coefficients := w.chain.Coefficients(position, nil)
		evidence := w.evidence[position]
		if m.isKnown(rows[i]) { // what was read there was of another pass
			evidence = nil
		}
		if weighAlike(m.Sequence(index).Language, coefficients, evidence) {
			continue
		}
		for k, x := range coefficients {
			coefficients[k] = math.Log(x)
		}
		list[i] = coefficients
	}
	return list, nil
}

// alike is the most by which equal coefficients differ for the rounding of sums, as a share of the
// largest.
const alike = 1e-10

// weighAlike reports whether coefficients are equal for all tokens that the evidence, if there is
// any, says to be possible. Then the marginal is the network's, whose own sums may round otherwise.
func weighAlike(l *Language, coefficients []float64, e *Evidence) bool {
	if e == nil && slices.Contains(l.Class, -1) || e != nil && e.Outside > 0 {
		return false
	}
	smallest := math.Inf(1)
	largest := 0.0
	for k, x := range coefficients {
		if e == nil || e.Sum[k] > 0 {
			smallest = min(smallest, x)
			largest = max(largest, x)
		}
	}
	return largest > 0 && smallest >= largest*(1-alike)
}

// Stats reduces the marginals given the languages. Arg is the token of the most probable sequence,
// P1 its probability at the position, and P2 that of the most probable other token, at most P1.
//
// The most probable tokens of single positions would not do for Arg: together they need not belong
// to the language.
func (m *Marginals) Stats(rows []int32, s *model.Stats) error {
	best := slices.Repeat([]int32{-1}, len(rows))
	if s.Arg != nil {
		if err := m.bestTokens(rows, best); err != nil {
			return err
		}
	}
	coefficients, err := m.logCoefficients(rows)
	if err != nil {
		return err
	}
	var plain, weighted []int
	for i := range rows {
		if coefficients[i] == nil {
			plain = append(plain, i)
		} else {
			weighted = append(weighted, i)
		}
	}
	if err := m.plainStats(rows, plain, s); err != nil {
		return err
	}
	var fault rowFault
	err = m.visitWeighted(rows, weighted, coefficients, func(i int, _ []float32, logits []float64) {
		if err := model.ReduceRow(logits, s, i); err != nil {
			fault.report(rows[i], err)
			return
		}
		useBest(logits, s, i, best[i])
	})
	if err := cmp.Or(err, fault.err()); err != nil || s.Arg == nil {
		return err
	}
	plain = slices.DeleteFunc(plain, func(i int) bool { return best[i] < 0 || s.Arg[i] == best[i] })
	return m.visitWeighted(rows, plain, coefficients, func(i int, logits []float32, _ []float64) {
		useBest(logits, s, i, best[i])
	})
}

// plainStats reduces the rows with some indexes as the network does.
func (m *Marginals) plainStats(rows []int32, indexes []int, s *model.Stats) error {
	if len(indexes) == 0 {
		return nil
	}
	n := len(indexes)
	part := model.Stats{Beta: s.Beta}
	partRows := make([]int32, n)
	for k, i := range indexes {
		partRows[k] = rows[i]
	}
	reductions := []struct{ ofPart, ofAll *[]float64 }{
		{&part.LogMoment, &s.LogMoment},
		{&part.Entropy, &s.Entropy},
		{&part.P1, &s.P1},
		{&part.P2, &s.P2},
		{&part.LogSum, &s.LogSum},
	}
	for _, r := range reductions {
		if *r.ofAll != nil {
			*r.ofPart = make([]float64, n)
		}
	}
	if s.Arg != nil {
		part.Arg = make([]int32, n)
	}
	if err := m.Filtered.Stats(partRows, &part); err != nil {
		return err
	}
	for k, i := range indexes {
		for _, r := range reductions {
			if *r.ofAll != nil {
				(*r.ofAll)[i] = (*r.ofPart)[k]
			}
		}
		if s.Arg != nil {
			s.Arg[i] = part.Arg[k]
		}
	}
	return nil
}

// useBest sets the reductions of a row to those with the most probable sequence's token, -1 for
// none, in the place of the most probable token.
func useBest[T float32 | float64](logits []T, s *model.Stats, i int, best int32) {
	if s.Arg == nil || best < 0 || s.Arg[i] == best {
		return
	}
	s.Arg[i] = best
	if s.P1 == nil {
		return
	}
	row := model.Stats{LogSum: make([]float64, 1)}
	_ = model.ReduceRow(logits, &row, 0) // succeeds, as it did before
	p := math.Exp(float64(logits[best]) - row.LogSum[0])
	if s.P2 != nil {
		s.P2[i] = min(s.P1[i], p)
	}
	s.P1[i] = p
}

// bestTokens sets tokens to those of the most probable sequences at rows, -1 where the token is
// known.
func (m *Marginals) bestTokens(rows, tokens []int32) error {
	sets := make([]int32, len(rows))
	for i, r := range rows {
		sets[i] = -1
		index, position, inside := m.locate(r)
		if !inside {
			continue
		}
		if m.isKnown(r) {
			continue
		}
		w, err := m.chain(index, position, 1)
		if err != nil {
			return err
		}
		if len(w.best) == 0 {
			w.best = w.chain.bestPath(w.best)
		}
		sets[i] = w.best[position]
	}
	return m.pickLargest(rows, sets, tokens)
}

// pickLargest sets tokens to the most probable ones of sets, -1 for a row whose set is -1. Where
// the filters left none of a set, they give way.
func (m *Marginals) pickLargest(rows, sets, tokens []int32) error {
	var indexes []int
	for i := range rows {
		tokens[i] = -1
		if sets[i] >= 0 {
			indexes = append(indexes, i)
		}
	}
	gaveWay, err := m.visitUntil(rows, indexes, func(i int, logits []float32, _ bool) bool {
		l := m.Sequence(int(rows[i]) / m.Length).Language
		isMember := make([]bool, l.ClassCount)
		for _, k := range l.Sets[sets[i]] {
			isMember[k] = true
		}
		top := math.Inf(-1)
		for v, x := range logits {
			if float64(x) > top && l.Class[v] >= 0 && isMember[l.Class[v]] {
				tokens[i] = int32(v)
				top = float64(x)
			}
		}
		return tokens[i] >= 0
	})
	for _, i := range gaveWay {
		m.Sequence(int(rows[i])/m.Length).FilterOverruled++
	}
	return err
}
