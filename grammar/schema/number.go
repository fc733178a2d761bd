package schema

import (
	"fmt"
	"math/big"
	"strings"

	"unmask/grammar"
)

// Numbers without bounds may have an exponent of two digits. Zero has no sign.
const (
	anyWhole  = `0|-?[1-9][0-9]*`
	anyBroken = `-?(0|[1-9][0-9]*)\.[0-9]*[1-9][0-9]*`
	anyNumber = anyWhole + `|-?(0|[1-9][0-9]*)(\.[0-9]+|(\.[0-9]+)?[eE][+-]?[0-9]{1,2})`
	anyPlain  = anyWhole + `|-?(0|[1-9][0-9]*)\.[0-9]+`
)

// number returns the automaton of an interval of numbers.
func (c *compiler) number(s *numbers) (*grammar.DFA, error) {
	key := fmt.Sprint("number", s.low, s.high, s.lowOpen, s.highOpen, s.whole, s.broken,
		s.multiples, s.values)
	if d := c.strings[key]; d != nil {
		return d, nil
	}
	d, err := c.interval(s)
	for _, m := range s.multiples {
		if err == nil {
			d, err = multiples(d, m, s.whole, c.budget)
		}
	}
	if err == nil {
		c.strings[key] = d
	}
	return d, err
}

func (c *compiler) interval(s *numbers) (*grammar.DFA, error) {
	if s.values != nil {
		var list []string
		for _, x := range s.values {
			list = append(list, digits(x))
		}
		return grammar.Choices(list, c.budget)
	}
	if s.low != nil && s.high != nil && s.low.Cmp(s.high) == 0 {
		return grammar.Choices([]string{digits(s.low)}, c.budget)
	}
	expression := anyNumber
	switch {
	case s.whole:
		expression = anyWhole
	case s.broken:
		expression = anyBroken
	case s.low != nil || s.high != nil || len(s.multiples) > 0:
		expression = anyPlain
	}
	d, err := grammar.Regexp(expression, c.budget)
	if err == nil && s.low != nil {
		d, err = c.beyond(d, s.low, s.lowOpen, false)
	}
	if err == nil && s.high != nil {
		d, err = c.beyond(d, s.high, s.highOpen, true)
	}
	return d, err
}

// beyond returns the numbers of d that are at least a bound or, with below, at most.
func (c *compiler) beyond(d *grammar.DFA, bound *big.Rat, open, below bool) (*grammar.DFA, error) {
	b := grammar.NewBuilder(c.budget)
	from, to := b.State(), b.State()
	m := &comparison{b: b, to: to}
	minus := b.Text(from, "-")
	// Numbers of the sign that is on the bound's side of zero are compared; the others are all in
	// or all out. Zero is written without a sign.
	negative := bound.Sign() < 0
	if below == negative { // the magnitude must be at least the bound's
		m.open = open
	} else {
		m.open, m.below = open, true
	}
	m.setBound(new(big.Rat).Abs(bound))
	if negative {
		m.compare(minus)
	} else {
		m.compare(from)
	}
	rest := &comparison{b: b, to: to}
	rest.setBound(new(big.Rat))
	switch {
	case below && !negative:
		rest.compare(minus)
	case !below && negative:
		rest.compare(from)
	}
	r, err := b.DFA(from, to)
	if err != nil {
		return nil, err
	}
	return grammar.Intersect(d, r, c.budget)
}

// comparison adds the decimal numbers without a sign that are at least a bound or, with below, at
// most; with open, not the bound itself.
type comparison struct {
	b           *grammar.Builder
	to          int32
	whole, part string // digits of the bound before and after the point
	open, below bool
}

func (m *comparison) setBound(r *big.Rat) {
	m.whole, m.part, _ = strings.Cut(digits(r), ".")
}

// digit adds an edge that reads one digit of lo to hi, if there are any.
func (m *comparison) digit(from, to int32, lo, hi byte) {
	if lo <= hi {
		m.b.Range(from, to, lo, hi)
	}
}

// compare adds the numbers after a state.
func (m *comparison) compare(from int32) {
	b, n := m.b, len(m.whole)
	// Numbers of another length of the whole part.
	rest := b.State() // a number that is in, whatever follows
	b.Empty(rest, m.to)
	m.digit(rest, rest, '0', '9')
	fraction := b.State()
	b.Range(rest, fraction, '.', '.')
	m.digit(fraction, fraction, '0', '9')
	b.Empty(fraction, m.to)
	if m.below {
		shorter := from
		for i := 1; i < n; i++ {
			next := b.State()
			m.digit(shorter, next, m.least(i > 1), '9')
			b.Empty(next, m.to)
			b.Range(next, fraction, '.', '.')
			if i == 1 {
				zero := b.State()
				b.Range(from, zero, '0', '0')
				b.Empty(zero, m.to)
				b.Range(zero, fraction, '.', '.')
			}
			shorter = next
		}
	} else {
		longer := from
		for i := range n + 1 {
			next := b.State()
			m.digit(longer, next, m.least(i > 0), '9')
			longer = next
		}
		b.Empty(longer, rest)
	}
	// Numbers of the same length: digit by digit.
	same := from
	for i := range n {
		d := m.whole[i]
		next, other := b.State(), b.State()
		b.Range(same, next, d, d)
		lo := m.least(i > 0 || n == 1)
		if m.below {
			if d > lo {
				m.digit(same, other, lo, d-1)
			}
		} else if d < '9' {
			m.digit(same, other, max(d+1, lo), '9')
		}
		for range n - i - 1 {
			after := b.State()
			m.digit(other, after, '0', '9')
			other = after
		}
		b.Empty(other, m.to)
		b.Range(other, fraction, '.', '.')
		same = next
	}
	m.fraction(same)
}

// least returns the lowest digit, which is not 0 at the beginning.
func (m *comparison) least(zero bool) byte {
	if zero {
		return '0'
	}
	return '1'
}

// fraction adds what may follow a whole part that equals the bound's.
func (m *comparison) fraction(from int32) {
	b := m.b
	zeros := strings.Trim(m.part, "0") == ""
	if zeros && !m.open || m.below && !zeros { // no fraction
		b.Empty(from, m.to)
	}
	same := b.State()
	b.Range(from, same, '.', '.')
	free := b.State()
	m.digit(free, free, '0', '9')
	b.Empty(free, m.to)
	for i := range len(m.part) {
		d := m.part[i]
		left := strings.Trim(m.part[i:], "0") != ""
		if i > 0 && (m.below && left || !left && !m.open) {
			b.Empty(same, m.to) // the missing digits are zeros
		}
		if m.below && d > '0' {
			m.digit(same, free, '0', d-1)
		} else if !m.below && d < '9' {
			m.digit(same, free, d+1, '9')
		}
		next := b.State()
		b.Range(same, next, d, d)
		same = next
	}
	// All digits are the bound's; further ones make a larger number, unless they are zeros.
	b.Range(same, same, '0', '0')
	if !m.open {
		b.Empty(same, m.to)
	}
	if !m.below {
		m.digit(same, free, '1', '9')
	}
}

// maxMultiple bounds multipleOf: there is a state for each remainder.
const maxMultiple = 2000

// multiples returns the numbers of d that are multiples of m: of a whole m, or with as many places
// as a power of ten has.
func multiples(d *grammar.DFA, m *big.Rat, whole bool, budget *grammar.Budget) (*grammar.DFA,
	error) {
	refused := &Refused{What: "multipleOf " + digits(m)}
	places := 0
	scaled := new(big.Rat).Set(m)
	for ; !scaled.IsInt(); places++ {
		if places > 20 {
			return nil, refused
		}
		scaled.Mul(scaled, big.NewRat(10, 1))
	}
	if !scaled.Num().IsInt64() || scaled.Num().Int64() > maxMultiple {
		return nil, refused
	}
	n := int(scaled.Num().Int64())
	// Digits before and after the point as one number of `places` decimals, modulo n.
	b := grammar.NewBuilder(budget)
	from, to := b.State(), b.State()
	before := make([]int32, n)
	for r := range before {
		before[r] = b.State()
	}
	b.Empty(from, before[0])
	b.Empty(b.Text(from, "-"), before[0])
	after := make([][]int32, places+1)
	for p := range after {
		after[p] = make([]int32, n)
		for r := range n {
			after[p][r] = b.State()
		}
	}
	scale := func(r, p int) int { // of a number that lacks p places
		for range p {
			r = r * 10 % n
		}
		return r
	}
	for r := range n {
		for d := range 10 {
			b.Range(before[r], before[(10*r+d)%n], byte('0'+d), byte('0'+d))
			for p := range places {
				b.Range(after[p][r], after[p+1][(10*r+d)%n], byte('0'+d), byte('0'+d))
			}
		}
		b.Range(after[places][r], after[places][r], '0', '0')
		b.Range(before[r], after[0][r], '.', '.')
		if scale(r, places) == 0 {
			b.Empty(before[r], to)
		}
		for p := range after {
			if scale(r, places-p) == 0 {
				b.Empty(after[p][r], to)
			}
		}
	}
	all, err := b.DFA(from, to)
	if err != nil {
		return nil, err
	}
	return grammar.Intersect(d, all, budget)
}
