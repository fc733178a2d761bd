package schema

import (
	"fmt"
	"math/big"
	"strings"

	"unmask/grammar"
)

// Expressions of numbers. Those without bounds may have an exponent of two digits. Zero without one
// has no sign: -0 would be a second text of the same value.
const (
	anyWhole    = `0|-?[1-9][0-9]*`
	anyFraction = `-?(0|[1-9][0-9]*)\.[0-9]*[1-9][0-9]*`
	anyPlain    = anyWhole + `|-?[1-9][0-9]*\.[0-9]+|0\.[0-9]+|-0\.[0-9]*[1-9][0-9]*`
	anyNumber   = anyPlain + `|-?(0|[1-9][0-9]*)(\.[0-9]+)?[eE][+-]?[0-9]{1,2}`
)

// numberAutomaton returns the automaton of a set of numbers.
func (c *compiler) numberAutomaton(s *numbers) (*grammar.DFA, error) {
	key := fmt.Sprint("number", s.low, s.high, s.lowOpen, s.highOpen, s.wholeOnly, s.fractionsOnly,
		s.multiplesOf, s.listed)
	return c.scalar(key, func() (*grammar.DFA, error) {
		d, err := c.intervalAutomaton(s)
		for _, m := range s.multiplesOf {
			if err == nil {
				d, err = keepMultiples(d, m, c.budget)
			}
		}
		return d, err
	})
}

// intervalAutomaton returns the automaton of a set of numbers, without its multiplesOf.
func (c *compiler) intervalAutomaton(s *numbers) (*grammar.DFA, error) {
	if s.listed != nil {
		var list []string
		for _, x := range s.listed {
			list = append(list, formatNumber(x))
		}
		return grammar.Choices(list, c.budget)
	}
	if s.low != nil && s.high != nil && s.low.Cmp(s.high) == 0 {
		return grammar.Choices([]string{formatNumber(s.low)}, c.budget)
	}

	expression := anyNumber
	switch {
	case s.wholeOnly:
		expression = anyWhole
	case s.fractionsOnly:
		expression = anyFraction
	case s.low != nil || s.high != nil || len(s.multiplesOf) > 0:
		// With an exponent, the digits alone do not say how large a number is.
		expression = anyPlain
	}
	d, err := grammar.Regexp(expression, c.budget)
	if err == nil && s.low != nil {
		d, err = c.restrictToBound(d, s.low, s.lowOpen, false)
	}
	if err == nil && s.high != nil {
		d, err = c.restrictToBound(d, s.high, s.highOpen, true)
	}
	return d, err
}

// maxDigits bounds the digits of bounds.
const maxDigits = 500

// restrictToBound returns the numbers of d that are at least a bound or, with upper, at most; with
// open, not the bound itself.
func (c *compiler) restrictToBound(d *grammar.DFA, bound *big.Rat, open, upper bool) (*grammar.DFA,
	error) {
	negative := bound.Sign() < 0
	sign := ""
	if negative {
		sign = "-"
	}

	// Numbers of the bound's sign are compared by their magnitude. Where larger magnitudes are what is
	// allowed, d is intersected with them, so that numbers of the other sign are left out. Otherwise
	// they are subtracted, so that those of the other sign stay. Zero is written without a sign.
	magnitude := formatNumber(new(big.Rat).Abs(bound))
	largerAllowed := upper == negative
	if len(magnitude) > maxDigits {
		return nil, &grammar.TooLargeError{Limit: c.budget.States()}
	}
	expression := sign + "(" + atLeastExpression(magnitude, open == largerAllowed) + ")"
	larger, err := grammar.Regexp(expression, c.budget)
	if err != nil {
		return nil, err
	}
	if largerAllowed {
		return grammar.Intersect(d, larger, c.budget)
	}
	return grammar.Subtract(d, larger, c.budget)
}

// atLeastExpression returns an expression of the decimal numbers without a sign that are greater
// than a bound or, unless open, the bound: more digits, or the same digits up to a greater one.
func atLeastExpression(bound string, open bool) string {
	whole, places, _ := strings.Cut(bound, ".")
	const anyPlaces = `(\.[0-9]*)?`

	// A number is greater if it has more digits before the point, or a greater digit before or after
	// it where all digits before that are the bound's, or the bound's digits and more behind them.
	list := []string{fmt.Sprintf(`[0-9]{%d,}%s`, len(whole)+1, anyPlaces)}
	for i, c := range whole {
		if c < '9' {
			list = append(list, fmt.Sprintf(`%s[%c-9][0-9]{%d}%s`, whole[:i], c+1, len(whole)-i-1,
				anyPlaces))
		}
	}
	for i, c := range places {
		if c < '9' {
			list = append(list, fmt.Sprintf(`%s\.%s[%c-9][0-9]*`, whole, places[:i], c+1))
		}
	}
	list = append(list, fmt.Sprintf(`%s\.%s0*[1-9][0-9]*`, whole, places))
	if !open {
		list = append(list, fmt.Sprintf(`%s\.%s0*`, whole, places))
	}
	if !open && places == "" {
		list = append(list, whole)
	}
	return strings.Join(list, "|")
}

// maxMultiple bounds multipleOf: there is a state for each remainder.
const maxMultiple = 2000

// keepMultiples returns the numbers of d that are multiples of m, which is a whole number or one
// with as many places as a power of ten has.
func keepMultiples(d *grammar.DFA, m *big.Rat, budget *grammar.Budget) (*grammar.DFA, error) {
	refusal := &UnsupportedError{Feature: "multipleOf " + formatNumber(m)}

	// x is a multiple of m if x*10^places is one of m*10^places, which is a whole number.
	places := 0
	scaled := new(big.Rat).Set(m)
	for ; !scaled.IsInt(); places++ {
		if places > 20 {
			return nil, refusal
		}
		scaled.Mul(scaled, big.NewRat(10, 1))
	}
	if !scaled.Num().IsInt64() || scaled.Num().Int64() > maxMultiple {
		return nil, refusal
	}
	multiples, err := multiplesAutomaton(int(scaled.Num().Int64()), places, budget)
	if err != nil {
		return nil, err
	}
	return grammar.Intersect(d, multiples, budget)
}

// multiplesAutomaton returns the decimal numbers that are a multiple of n once they are multiplied
// by 10^places. It reads the digits before and after the point as one number, modulo n.
func multiplesAutomaton(n, places int, budget *grammar.Budget) (*grammar.DFA, error) {
	b := grammar.NewBuilder(budget)
	source := b.AddState()
	target := b.AddState()
	beforePoint := addStates(b, n) // by the remainder
	b.AddEmpty(source, beforePoint[0])
	b.AddEmpty(b.AddText(source, "-"), beforePoint[0])
	afterPoint := make([][]int32, places+1) // by the digits that were read after the point
	for p := range afterPoint {
		afterPoint[p] = addStates(b, n)
	}
	addZeros := func(remainder, zeros int) int {
		for range zeros {
			remainder = remainder * 10 % n
		}
		return remainder
	}
	for r := range n {
		for digit := range 10 {
			c := byte('0' + digit)
			next := (10*r + digit) % n
			b.AddRange(beforePoint[r], beforePoint[next], c, c)
			for p := range places {
				b.AddRange(afterPoint[p][r], afterPoint[p+1][next], c, c)
			}
		}
		b.AddRange(afterPoint[places][r], afterPoint[places][r], '0', '0') // say nothing any more
		b.AddRange(beforePoint[r], afterPoint[0][r], '.', '.')
		if addZeros(r, places) == 0 {
			b.AddEmpty(beforePoint[r], target)
		}
		for p := range afterPoint {
			if addZeros(r, places-p) == 0 {
				b.AddEmpty(afterPoint[p][r], target)
			}
		}
	}
	return b.Build(source, target)
}
