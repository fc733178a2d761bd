package chat

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// digits are what Python's int and float take, once other scripts' digits are ASCII.
var (
	pythonInt   = regexp.MustCompile(`^[+-]?[0-9A-Za-z]+(_[0-9A-Za-z]+)*$`)
	pythonReal  = regexp.MustCompile(`^[+-]?([0-9](_?[0-9])*)?\.?([0-9](_?[0-9])*)?([eE][+-]?[0-9](_?[0-9])*)?$`)
	anyDigit    = regexp.MustCompile(`[0-9]`)
	maxDigits   = 4300 // as in Python
	wholeNumber = func(n *big.Int) any {
		if n.IsInt64() {
			return n.Int64()
		}
		return bigInt(n.String())
	}
)

// plainDigits returns s without white space around it and with ASCII digits for those of any
// script.
func plainDigits(s string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x80 || !unicode.Is(unicode.Nd, c) {
			return c
		}
		zero := c
		for unicode.Is(unicode.Nd, zero-1) && c-zero < 9 {
			zero--
		}
		return '0' + c - zero
	}, strings.TrimFunc(s, isSpace))
}

// parseInt returns Python's int(s, base), or ok false.
func parseInt(s string, base int) (n *big.Int, ok bool) {
	s = plainDigits(s)
	if !pythonInt.MatchString(s) || len(s) > maxDigits {
		return nil, false
	}
	sign, body := "", strings.ReplaceAll(s, "_", "")
	if body[0] == '+' || body[0] == '-' {
		sign, body = body[:1], body[1:]
	}
	if len(body) > 2 && body[0] == '0' {
		of := map[byte]int{'x': 16, 'o': 8, 'b': 2}[body[1]|0x20]
		if of > 0 && (base == 0 || base == of) {
			body, base = body[2:], of
		}
	}
	if base == 0 {
		if base = 10; len(body) > 1 && body[0] == '0' && strings.Trim(body, "0") != "" {
			return nil, false
		}
	}
	if base < 2 || base > 36 {
		fail("int() base must be >= 2 and <= 36, or 0")
	}
	return new(big.Int).SetString(sign+body, base)
}

// parseReal returns Python's float(s), or ok false. Infinities and NaN are not read: they are no
// whole numbers.
func parseReal(s string) (f float64, ok bool) {
	s = plainDigits(s)
	if !pythonReal.MatchString(s) || !anyDigit.MatchString(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil
}

// truncated returns Python's int(f), or ok false where f is no number.
func truncated(f float64) (v any, ok bool) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, false
	}
	n, _ := big.NewFloat(f).Int(nil)
	return wholeNumber(n), true
}

// filterInt is Jinja's int: a default where the value is no number.
func filterInt(r *run, v any, args []any, named *dict) any {
	known(named, "int", "default", "base")
	otherwise, given := option(args, 0, named, "default")
	if !given {
		otherwise = int64(0)
	}
	switch v := v.(type) {
	case undefined:
		v.fail()
	case bigInt:
		return v
	case text:
		r.touch(len(v.s))
		base := int64(10)
		if a, ok := option(args, 1, named, "base"); ok {
			base = r.index(a)
		}
		if n, ok := parseInt(v.s, int(min(max(base, -1), 99))); ok {
			return wholeNumber(n)
		}
		if f, ok := parseReal(v.s); ok {
			if n, ok := truncated(f); ok {
				return n
			}
		}
		return otherwise
	}
	n, f, whole, ok := number(v)
	if ok && whole {
		return n
	}
	if ok {
		if n, ok := truncated(f); ok {
			return n
		}
	}
	return otherwise
}
