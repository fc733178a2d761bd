package constrain

import (
	"cmp"
	"math"
	"slices"

	"unmask/grammar"
	"unmask/model"
)

// Sequence is what is kept of one constrained sequence between passes.
type Sequence struct {
	Language *Language
	Mask     int32
	// Uniform returns a number in (0, 1) for a position that is not drawn, by the number of the
	// draw.
	Uniform func(position, draw int) float64
	Sums    *SumCache // of all sequences of a pool; nil: its own

	tokens          []int32    // of the sequence in the latest pass
	fresh           []int32    // positions whose marginals the latest pass has
	powers          []*powered // that this step or the one before has used
	draws           int        // in the current step
	FilterOverruled int        // tokens drawn although the filters had left them no probability
	Choices         []Choice   // of a language of choices, by the first pass
}

// powered is the chain for marginals p^power.
type powered struct {
	power    float64
	idle     int         // steps since it was used
	evidence []*Evidence // [positions]; from earlier passes where the latest has none
	read     bool        // the evidence of the latest pass
	chain    *Chain      // of the evidence; nil where the sums are not kept
	best     []step
}

// SumCache keep the chains that were used last. The sums over a large language take more memory
// than what they are computed from, so they are computed again where they do not fit.
type SumCache struct {
	used  []*powered
	spare *Chain // of dropped sums, nil for none
}

// maxSums bounds the memory of sums, in bytes, if there is more than one.
const maxSums = 32 << 20

// lend returns memory for the sums of w, which takes them from others if all have too much.
func (s *SumCache) lend(w *powered) *Chain {
	bytes := 0
	for _, other := range s.used {
		bytes += other.chain.bytes()
	}
	for bytes > maxSums/2 {
		bytes -= s.used[0].chain.bytes()
		s.drop(s.used[0])
	}
	c := s.spare
	if s.spare = nil; c == nil {
		c = new(Chain)
	}
	s.used = append(s.used, w)
	return c
}

// drop forgets the sums of w.
func (s *SumCache) drop(w *powered) {
	if i := slices.Index(s.used, w); i >= 0 {
		s.used = slices.Delete(s.used, i, i+1)
		s.spare, w.chain = w.chain, nil
	}
}

// Close forgets what is kept of the sequence.
func (q *Sequence) Close() {
	for _, w := range q.powers {
		q.Sums.drop(w)
	}
	q.powers = nil
}

// BeginStep begins a step: draws are counted from it, and powers that the last one did not use are
// dropped.
func (q *Sequence) BeginStep() {
	q.draws = 0
	q.powers = slices.DeleteFunc(q.powers, func(w *powered) bool {
		if w.idle++; w.idle > 1 {
			q.Sums.drop(w)
		}
		return w.idle > 1
	})
}

// BeginPass sets the tokens of the sequence in a new pass, and the positions whose marginals it
// has.
func (q *Sequence) BeginPass(tokens []int32, fresh []int32) {
	q.tokens = append(q.tokens[:0], tokens[q.Language.FirstPosition:q.Language.EndPosition]...)
	q.fresh = q.fresh[:0]
	for _, p := range fresh {
		if int(p) >= q.Language.FirstPosition && int(p) < q.Language.EndPosition && tokens[p] == q.Mask {
			q.fresh = append(q.fresh, p)
		}
	}
	slices.Sort(q.fresh)
	q.fresh = slices.Compact(q.fresh)
	for _, w := range q.powers {
		w.read, w.best = false, w.best[:0]
		q.Sums.drop(w)
	}
}

// MaskForbidden masks those of some tokens that do not go with the tokens before them. Those of
// given that are no masks stay.
func (q *Sequence) MaskForbidden(tokens, given []int32) {
	var c Chain
	l := q.Language
	if !c.set(l, given[l.FirstPosition:l.EndPosition], q.Mask, nil) {
		return // nothing goes with what is given
	}
	states := c.states[0]
	for i, proposed := range tokens[l.FirstPosition:l.EndPosition] {
		c.index(i + 1)
		var free, kept []int32
		add := func(to *[]int32, s int32) {
			if c.at[s] >= 0 {
				*to = append(*to, s)
			}
		}
		for _, s := range states {
			c.next(i, s, func(e grammar.TokenEdge) { add(&free, e.To) })
			if t := l.Next(s, proposed); proposed != q.Mask && t >= 0 {
				add(&kept, t)
			}
		}
		c.clear(i + 1)
		slices.Sort(kept)
		if states = slices.Compact(kept); len(kept) == 0 {
			slices.Sort(free)
			states = slices.Compact(free)
			if c.tokens[i] == q.Mask {
				tokens[l.FirstPosition+i] = q.Mask
			}
		}
	}
}

// Allows reports whether the language has a sequence with these tokens.
func (q *Sequence) Allows(tokens []int32) bool {
	return q.Language.completes(tokens[q.Language.FirstPosition:q.Language.EndPosition], q.Mask)
}

// Marginals are those of another Marginals given the languages of the sequences. All rows asked for
// are of sequences with a language; rows outside of the language's positions are as they were.
type Marginals struct {
	Filtered model.Marginals // with the filters
	Raw      model.Marginals // without
	Outcomes int
	Length   int                       // rows of a sequence
	Sequence func(index int) *Sequence // of the batch

}

// chain returns the chain of a sequence for a power.
func (m *Marginals) chain(index int, power float64) (*powered, error) {
	q := m.Sequence(index)
	if q.Sums == nil {
		q.Sums = new(SumCache)
	}
	at := slices.IndexFunc(q.powers, func(w *powered) bool { return w.power == power })
	if at < 0 {
		at = len(q.powers)
		q.powers = append(q.powers, &powered{power: power,
			evidence: make([]*Evidence, len(q.tokens))})
	}
	w := q.powers[at]
	w.idle = 0
	if !w.read {
		if err := m.read(q, index, w); err != nil {
			return nil, err
		}
	}
	if w.chain == nil {
		w.chain = q.Sums.lend(w)
		if !w.chain.set(q.Language, q.tokens, q.Mask, w.evidence) {
			q.Sums.drop(w)
			return nil, &model.RowError{Row: int32(index * m.Length), Err: errNone}
		}
		if q.Language.Choices != nil && q.Choices == nil && power == 1 {
			q.Choices = w.chain.choices()
		}
	}
	return w, nil
}

// read reads the evidence of the latest pass.
func (m *Marginals) read(q *Sequence, index int, w *powered) error {
	l := q.Language
	rows := make([]int32, len(q.fresh))
	for i, p := range q.fresh {
		rows[i] = int32(index*m.Length) + p
		e := &w.evidence[int(p)-l.FirstPosition]
		if *e == nil {
			*e = &Evidence{make([]float64, l.ClassCount), make([]float64, l.ClassCount)}
		}
	}
	var fault rowFault
	err := m.Filtered.Visit(rows, func(i int, logits []float32) {
		e := w.evidence[int(q.fresh[i])-l.FirstPosition]
		if err := e.read(l, logits[:m.Outcomes], w.power); err != nil {
			fault.set(rows[i], err)
		}
	})
	err = cmp.Or(err, fault.err())
	w.read = err == nil
	return err
}

// read sums the probabilities p^power of classes.
func (e *Evidence) read(l *Language, logits []float32, power float64) error {
	clear(e.Sum)
	clear(e.Top)
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
			e.Sum[k] += p
			e.Top[k] = max(e.Top[k], p)
		}
	}
	for k := range e.Sum {
		e.Sum[k] /= whole
		e.Top[k] /= whole
	}
	return nil
}

// place returns the sequence and the position, in its language, of a row; inside is false beyond
// it.
func (m *Marginals) place(row int32) (index, at int, inside bool) {
	index = int(row) / m.Length
	l := m.Sequence(index).Language
	at = int(row)%m.Length - l.FirstPosition
	return index, at, at >= 0 && at < l.EndPosition-l.FirstPosition
}

// Visit passes the marginals given the languages, as logits.
func (m *Marginals) Visit(rows []int32, visit func(i int, logits []float32)) error {
	coefficients, err := m.coefficients(rows)
	if err != nil {
		return err
	}
	all := model.Indexes(0, len(rows))
	_, err = m.visitUntil(rows, all, func(i int, logits []float32, last bool) bool {
		if coefficients[i] != nil && !m.scale(rows[i], coefficients[i], logits) && !last {
			return false
		}
		visit(i, logits)
		return true
	})
	return err
}

// visitUntil passes the filtered logits of some rows to take and, for those for which it returns
// false, the logits before the filters, and at last equal ones: where the filters left nothing that
// the language allows, they give way. It returns the rows where they did.
func (m *Marginals) visitUntil(rows []int32, of []int,
	take func(i int, logits []float32, last bool) bool) (gaveWay []int, err error) {
	for n, marginals := range []model.Marginals{m.Filtered, m.Raw, m.Raw} {
		list, taken := make([]int32, len(of)), make([]bool, len(of))
		for k, i := range of {
			list[k] = rows[i]
		}
		last := n == 2
		err := marginals.Visit(list, func(k int, logits []float32) {
			logits = logits[:m.Outcomes]
			if last {
				clear(logits)
			}
			taken[k] = take(of[k], logits, last)
		})
		var rest []int
		for k, i := range of {
			if !taken[k] {
				rest = append(rest, i)
			}
		}
		if n == 0 {
			gaveWay = rest
		}
		if of = rest; err != nil || len(of) == 0 {
			return gaveWay, err
		}
	}
	return gaveWay, nil
}

// coefficients returns the coefficients of rows' classes, nil for a row outside of its language.
func (m *Marginals) coefficients(rows []int32) ([][]float64, error) {
	out, order := make([][]float64, len(rows)), model.Indexes(0, len(rows))
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(rows[i], rows[j]) })
	for _, i := range order {
		if index, at, inside := m.place(rows[i]); inside {
			w, err := m.chain(index, 1)
			if err != nil {
				return nil, err
			}
			out[i] = w.chain.Coefficients(at, nil)
			for k, x := range out[i] {
				out[i][k] = math.Log(x)
			}
		}
	}
	return out, nil
}

// scale adds the logarithms of coefficients to logits, and reports whether any is finite.
func (m *Marginals) scale(row int32, logs []float64, logits []float32) (some bool) {
	class := m.Sequence(int(row) / m.Length).Language.Class
	for v, k := range class[:len(logits)] {
		if k < 0 {
			logits[v] = float32(math.Inf(-1))
			continue
		}
		x := float64(logits[v]) + logs[k]
		logits[v] = float32(x)
		some = some || !math.IsInf(x, -1)
	}
	return some
}

// Stats reduces the marginals given the languages. Arg is the token of the most probable sequence,
// P1 its probability at the position, and P2 that of the most probable other token, at most P1.
func (m *Marginals) Stats(rows []int32, s *model.Stats) error {
	best := make([]int32, len(rows))
	if s.Arg != nil {
		if err := m.best(rows, best); err != nil {
			return err
		}
	}
	var fault rowFault
	err := m.Visit(rows, func(i int, logits []float32) {
		if err := model.ReduceRow(logits, s, i); err != nil {
			fault.set(rows[i], err)
			return
		}
		if s.Arg == nil || s.Arg[i] == best[i] || best[i] < 0 {
			return
		}
		s.Arg[i] = best[i]
		if s.P1 != nil {
			one := model.Stats{LogSum: make([]float64, 1)}
			_ = model.ReduceRow(logits, &one, 0) // the same row as above
			p := math.Exp(float64(logits[best[i]]) - one.LogSum[0])
			if s.P2 != nil {
				s.P2[i] = min(s.P1[i], p)
			}
			s.P1[i] = p
		}
	})
	return cmp.Or(err, fault.err())
}

// best sets out to the tokens of the most probable sequences at rows, -1 where the token is known.
func (m *Marginals) best(rows, out []int32) error {
	sets := make([]int32, len(rows))
	for i, r := range rows {
		index, at, inside := m.place(r)
		if sets[i] = -1; !inside {
			continue
		}
		w, err := m.chain(index, 1)
		if err != nil {
			return err
		}
		if len(w.best) == 0 {
			w.best = w.chain.best(w.best)
		}
		sets[i] = w.best[at].set
	}
	return m.choose(rows, sets, out, func(i int, logits []float32, in func(v int) bool) int32 {
		token, top := int32(-1), math.Inf(-1)
		for v, x := range logits {
			if float64(x) > top && in(v) {
				token, top = int32(v), float64(x)
			}
		}
		return token
	})
}

// choose calls pick for the rows whose set is not -1, with the filtered logits or, if it returns
// -1, with those before the filters and then with equal ones.
func (m *Marginals) choose(rows, sets, out []int32, pick func(i int, logits []float32,
	in func(v int) bool) int32) error {
	var of []int
	for i := range rows {
		if out[i] = -1; sets[i] >= 0 {
			of = append(of, i)
		}
	}
	gaveWay, err := m.visitUntil(rows, of, func(i int, logits []float32, _ bool) bool {
		l := m.Sequence(int(rows[i]) / m.Length).Language
		member := make([]bool, l.ClassCount)
		for _, c := range l.Sets[sets[i]] {
			member[c] = true
		}
		out[i] = pick(i, logits, func(v int) bool { return l.Class[v] >= 0 && member[l.Class[v]] })
		return out[i] >= 0
	})
	for _, i := range gaveWay {
		m.Sequence(int(rows[i])/m.Length).FilterOverruled++
	}
	return err
}
