package samplers

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// maxNesting bounds what Parse reads.
const maxNesting = 8

// Parse builds a sampler from a name, such as "halton", with parameters, "moment(alpha=3)",
// and around others, "hybrid(halton, u-moment)". Parameters in o hold for all that the
// text does not set; in it, they stand before what they are for. An order alone becomes a ChooseThenSample with o.Gamma.
func Parse(text string, o Options) (Sampler, error) {
	p := parser{rest: text}
	rule, gamma, err := p.rule(p.word(), o, 0)
	if err == nil && p.space() != "" {
		err = fmt.Errorf("found %q after the end", p.rest)
	}
	if err != nil {
		return nil, fmt.Errorf("samplers: %q: %w", text, err)
	}
	s := sampler(rule, gamma)
	if err := Check(s); err != nil {
		return nil, err
	}
	return s, nil
}

type parser struct{ rest string }

// space skips blanks and returns what is left.
func (p *parser) space() string {
	p.rest = strings.TrimLeft(p.rest, " \t")
	return p.rest
}

// take skips one byte if it is c.
func (p *parser) take(c byte) bool {
	if s := p.space(); s != "" && s[0] == c {
		p.rest = s[1:]
		return true
	}
	return false
}

// word reads a name, a key or a number.
func (p *parser) word() string {
	s := p.space()
	n := strings.IndexAny(s, "(),= \t")
	if n < 0 {
		n = len(s)
	}
	p.rest = s[n:]
	return s[:n]
}

// rule reads what is in parentheses after a name; gamma is what holds there.
func (p *parser) rule(name string, o Options, depth int) (rule any, gamma float64, err error) {
	e, err := find(name)
	if err != nil {
		return nil, 0, err
	}
	var inner []any
	if p.take('(') && !p.take(')') {
		for {
			word := p.word()
			if p.take('=') {
				err = o.set(e.Info, word, p.word())
			} else {
				var r any
				if e.Inner == "" {
					err = fmt.Errorf("%s takes no sampler inside, found %q", name, word)
				} else if depth >= maxNesting {
					err = fmt.Errorf("nested deeper than %d", maxNesting)
				} else {
					r, _, err = p.rule(word, o, depth+1)
				}
				inner = append(inner, r)
			}
			if err != nil {
				return nil, 0, err
			}
			if p.take(')') {
				break
			}
			if !p.take(',') {
				return nil, 0, fmt.Errorf("want a comma or ) after %s's parameters, found %q", name, p.rest)
			}
		}
	}
	rule, err = e.build(o, inner)
	return rule, o.Gamma, err
}

func find(name string) (entry, error) {
	var names []string
	for _, e := range registry {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return entry{}, unknown("sampler", name, names)
}

// set sets a parameter by its key: the field of that name, or of that tag.
func (o *Options) set(e Info, key, value string) error {
	known := false
	for _, k := range e.Params {
		known = known || k == key
	}
	if !known {
		return fmt.Errorf("%s has no parameter %q, want one of [%s]", e.Name, key, strings.Join(e.Params, " "))
	}
	f := reflect.ValueOf(o).Elem().FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, key) })
	if f.Kind() == reflect.String {
		f.SetString(value)
		return nil
	}
	if f.Kind() == reflect.Int {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("%s: %s=%s, want a whole number of at least 0", e.Name, key, value)
		}
		f.SetInt(n)
		return nil
	}
	x, err := strconv.ParseFloat(value, 64)
	if err != nil || x != x {
		return fmt.Errorf("%s: %s=%s, want a number", e.Name, key, value)
	}
	f.SetFloat(x)
	return nil
}
