package schema

import (
	"fmt"
	"math/big"
	"strings"

	"unmask/grammar"
)

// Numbers without bounds may have an exponent of two digits. Zero without one has no sign.
const (
	anyWhole  = `0|-?[1-9][0-9]*`
	anyBroken = `-?(0|[1-9][0-9]*)\.[0-9]*[1-9][0-9]*`
	anyPlain  = anyWhole + `|-?[1-9][0-9]*\.[0-9]+|0\.[0-9]+|-0\.[0-9]*[1-9][0-9]*`
	anyNumber = anyPlain + `|-?(0|[1-9][0-9]*)(\.[0-9]+)?[eE][+-]?[0-9]{1,2}`
)

// number returns the automaton of an interval of numbers.
func (c *compiler) number(s *numbers) (*grammar.DFA, error) {
	key := fmt.Sprint("number", s.low, s.high, s.lowOpen, s.highOpen, s.whole, s.broken,
		s.multiples, s.values)
	return c.cached(key, func() (*grammar.DFA, error) {
		d, err := c.interval(s)
		for _, m := range s.multiples {
			if err == nil {
				d, err = multiples(d, m, c.budget)
			}
		}
		return d, err
	})
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

// maxDigits bounds the digits of bounds.
const maxDigits = 500

// beyond returns the numbers of d that are at least a bound or, with below, at most; with open, not
// the bound itself.
func (c *compiler) beyond(d *grammar.DFA, bound *big.Rat, open, below bool) (*grammar.DFA, error) {
	sign, negative := "", bound.Sign() < 0
	if negative {
		sign = "-"
	}
	// Numbers of the bound's sign are compared by their magnitude: they are what is in where a larger
	// one is, and what is out otherwise. Zero is written without a sign.
	size, within := digits(new(big.Rat).Abs(bound)), below == negative
	if len(size) > maxDigits {
		return nil, &grammar.TooLargeError{Limit: c.budget.States()}
	}
	r, err := grammar.Regexp(sign+"("+atLeast(size, open == within)+")", c.budget)
	if err != nil {
		return nil, err
	}
	if within {
		return grammar.Intersect(d, r, c.budget)
	}
	return grammar.Subtract(d, r, c.budget)
}

// atLeast returns an expression of the decimal numbers without a sign that are greater than a bound
// or, unless open, the bound.
func atLeast(bound string, open bool) string {
	whole, part, _ := strings.Cut(bound, ".")
	const fraction = `(\.[0-9]*)?`
	list := []string{fmt.Sprintf(`[0-9]{%d,}%s`, len(whole)+1, fraction)}
	for i, c := range whole {
		if c < '9' {
			list = append(list, fmt.Sprintf(`%s[%c-9][0-9]{%d}%s`, whole[:i], c+1, len(whole)-i-1, fraction))
		}
	}
	for i, c := range part {
		if c < '9' {
			list = append(list, fmt.Sprintf(`%s\.%s[%c-9][0-9]*`, whole, part[:i], c+1))
		}
	}
	list = append(list, fmt.Sprintf(`%s\.%s0*[1-9][0-9]*`, whole, part))
	if !open {
		list = append(list, fmt.Sprintf(`%s\.%s0*`, whole, part))
	}
	if !open && part == "" {
		list = append(list, whole)
	}
	return strings.Join(list, "|")
}

// maxMultiple bounds multipleOf: there is a state for each remainder.
const maxMultiple = 2000

// multiples returns the numbers of d that are multiples of m: of a whole m, or with as many places
// as a power of ten has.
func multiples(d *grammar.DFA, m *big.Rat, budget *grammar.Budget) (*grammar.DFA, error) {
	refused := &UnsupportedError{Feature: "multipleOf " + digits(m)}
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
	from, to := b.AddState(), b.AddState()
	before := states(b, n)
	b.AddEmpty(from, before[0])
	b.AddEmpty(b.AddText(from, "-"), before[0])
	after := make([][]int32, places+1)
	for p := range after {
		after[p] = states(b, n)
	}
	scale := func(r, p int) int { // of a number that lacks p places
		for range p {
			r = r * 10 % n
		}
		return r
	}
	for r := range n {
		for d := range 10 {
			b.AddRange(before[r], before[(10*r+d)%n], byte('0'+d), byte('0'+d))
			for p := range places {
				b.AddRange(after[p][r], after[p+1][(10*r+d)%n], byte('0'+d), byte('0'+d))
			}
		}
		b.AddRange(after[places][r], after[places][r], '0', '0')
		b.AddRange(before[r], after[0][r], '.', '.')
		if scale(r, places) == 0 {
			b.AddEmpty(before[r], to)
		}
		for p := range after {
			if scale(r, places-p) == 0 {
				b.AddEmpty(after[p][r], to)
			}
		}
	}
	all, err := b.Build(from, to)
	if err != nil {
		return nil, err
	}
	return grammar.Intersect(d, all, budget)
}
