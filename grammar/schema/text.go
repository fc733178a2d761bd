package schema

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"unmask/grammar"
)

// texts returns the automaton of texts as JSON strings.
func (c *compiler) texts(s *texts) (*grammar.DFA, error) {
	key := fmt.Sprint(s.minLength, c.most(s), min(c.Exact, s.maxLength), s.match, s.not)
	key = fmt.Sprintf("%s%q%v%q", key, s.in, s.in == nil, s.out)
	return c.cached(key, func() (*grammar.DFA, error) {
		if s.in != nil {
			return c.list(s.in)
		}
		d, err := c.content(s)
		if err == nil {
			d, err = escaped(d, c.budget)
		}
		if err != nil || len(s.out) == 0 {
			return d, err
		}
		out, err := c.list(s.out)
		if err != nil {
			return nil, err
		}
		return grammar.Subtract(d, out, c.budget)
	})
}

// list returns the automaton of a list of texts as JSON strings.
func (c *compiler) list(list []string) (*grammar.DFA, error) {
	list = slices.Clone(list)
	for i, t := range list {
		list[i] = quote(t)
	}
	return grammar.Choices(list, c.budget)
}

// most returns the most characters that texts have within the bounds, -1 for any number.
func (c *compiler) most(s *texts) int {
	if s.maxLength > max(c.Text, s.minLength) {
		return max(c.Text, s.minLength)
	}
	return s.maxLength
}

// bounded reports whether the number of states grows with the bounds.
func (c *compiler) bounded(s *texts) bool { return s.in == nil && s.maxLength > bounds[0].Text }

// estimate returns about how many states texts with a bounded number of characters have.
func (c *compiler) estimate(s *texts) int {
	const exact, coarse = 9, 2 // states of a character, with the bytes of UTF-8 and escapes
	most := c.most(s)
	one := min(most, max(s.minLength, c.Exact))
	states := exact*one + coarse*(most-one)
	for _, m := range s.match { // most patterns are of characters of one byte
		states = min(states, m.States()*most)
	}
	return states
}

// content returns the automaton of texts in characters, without what is left out. The length comes
// last, because it makes the largest automaton.
func (c *compiler) content(s *texts) (*grammar.DFA, error) {
	d, err := length(0, -1, 0, c.budget)
	for _, m := range s.match {
		if err == nil {
			d, err = grammar.Intersect(d, m, c.budget)
		}
	}
	for _, m := range s.not {
		if err == nil {
			d, err = grammar.Subtract(d, m, c.budget)
		}
	}
	if err != nil || s.minLength == 0 && s.maxLength < 0 {
		return d, err
	}
	n, err := length(s.minLength, c.most(s), c.Exact, c.budget)
	if err != nil || len(s.match)+len(s.not) == 0 {
		return n, err
	}
	return grammar.Intersect(d, n, c.budget)
}

// grain is how many characters another one than a plain one may count for.
const grain = 8

// length returns the automaton of texts of least to most characters, -1 for any number. After exact
// ones, a character that is not written as one byte counts as many as lead to a multiple of grain,
// so that not each number has states for the bytes of UTF-8 and escapes.
func length(least, most, exact int, budget *grammar.Budget) (*grammar.DFA, error) {
	if least > budget.States() {
		return nil, &grammar.TooLargeError{Limit: budget.States()}
	}
	b := grammar.NewBuilder(budget)
	last := max(most, 0)
	if most < 0 {
		last, exact = least, least
	}
	exact = max(exact, least)
	to, at := b.AddState(), []int32{b.AddState()}
	for len(at) <= last && !b.Full() {
		at = append(at, b.AddState())
	}
	if most < 0 {
		b.AddAnyRune(at[len(at)-1], at[len(at)-1])
	}
	others := int32(-1)
	for n, s := range at {
		if n >= least {
			b.AddEmpty(s, to)
		}
		switch {
		case n+1 == len(at):
		case n < exact:
			b.AddAnyRune(s, at[n+1])
		default:
			if then := (n/grain + 1) * grain; then >= len(at) {
				others = -1
			} else if others < 0 || n%grain == 0 {
				others = b.AddState()
				runes(b, others, at[then], 0, ' '-1, '"', '"', '\\', '\\', utf8.RuneSelf, unicode.MaxRune)
			}
			if others >= 0 {
				b.AddEmpty(s, others)
			}
			runes(b, s, at[n+1], ' ', '!', '#', '[', ']', utf8.RuneSelf-1)
		}
	}
	return b.Build(at[0], to)
}

// runes adds edges for pairs of a first and a last character.
func runes(b *grammar.Builder, from, to int32, list ...rune) {
	for i := 0; i < len(list); i += 2 {
		b.AddRunes(from, to, list[i], list[i+1])
	}
}

// escaped returns the automaton of the JSON strings of d's texts. Control characters without a
// short escape are left out.
func escaped(d *grammar.DFA, budget *grammar.Budget) (*grammar.DFA, error) {
	b := grammar.NewBuilder(budget)
	for range d.States() {
		b.AddState()
	}
	from, to := b.AddState(), b.AddState()
	if d.Empty() {
		return b.Build(from, to)
	}
	b.AddRange(from, d.Start(), '"', '"')
	for s := range int32(d.States()) {
		if d.Accepts(s) {
			b.AddRange(s, to, '"', '"')
		}
		escape := int32(-1)
		for _, e := range d.Out(s) {
			for _, c := range "\"\\\b\f\n\r\t" {
				if byte(c) < e.Lo || byte(c) > e.Hi {
					continue
				}
				if escape < 0 {
					escape = b.AddState()
					b.AddRange(s, escape, '\\', '\\')
				}
				short := escapes[c][1]
				b.AddRange(escape, e.To, short, short)
			}
			lo := max(e.Lo, ' ')
			for _, skip := range []byte("\"\\") {
				if lo <= skip && skip <= e.Hi {
					if lo < skip {
						b.AddRange(s, e.To, lo, skip-1)
					}
					lo = skip + 1
				}
			}
			if lo <= e.Hi {
				b.AddRange(s, e.To, lo, e.Hi)
			}
		}
	}
	return b.Build(from, to)
}

// has reports whether a text is one of those described.
func (a *texts) has(t string) bool {
	n, matches := len([]rune(t)), func(m *grammar.DFA) bool { return m.Match(t) }
	return n >= a.minLength && (a.maxLength < 0 || n <= a.maxLength) &&
		(a.in == nil || slices.Contains(a.in, t)) && !slices.Contains(a.out, t) &&
		!slices.ContainsFunc(a.match, func(m *grammar.DFA) bool { return !matches(m) }) &&
		!slices.ContainsFunc(a.not, matches)
}

// formats are the formats that are checked, as regular expressions of whole texts; but for regex,
// others say nothing about what is valid. What validators disagree about is left out: seconds
// numbered 60, quoted names of mailboxes, hosts with percent signs, and labels that are not ASCII
// or have hyphens in the third and fourth place. Hosts have up to 7 labels, of which all but the
// first have up to 30 letters, so that they are shorter than 254.
var formats = map[string]string{
	"date":                  date,
	"time":                  clock,
	"date-time":             date + "[Tt]" + clock,
	"duration":              `P(\d+W|` + days + `(T` + hours + `)?|T` + hours + `)`,
	"email":                 email,
	"idn-email":             email,
	"hostname":              host,
	"idn-hostname":          host,
	"host-name":             host,
	"ipv4":                  ipv4,
	"ip-address":            ipv4,
	"ipv6":                  ipv6(),
	"uuid":                  `[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`,
	"uri":                   uri("", false),
	"uri-reference":         uri("", true),
	"iri":                   uri(international, false),
	"iri-reference":         uri(international, true),
	"uri-template":          `(` + literal + `|\{[+#./;?&]?` + variable + `(,` + variable + `)*\})*`,
	"json-pointer":          pointer,
	"relative-json-pointer": `(0|[1-9]\d*)(#|` + pointer + `)`,
}

const (
	date = `(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|` +
		`02-(0[1-9]|1\d|2[0-8]))|` +
		`(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)`
	clock = `([01]\d|2[0-3]):[0-5]\d:([0-5]\d)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)`
	days  = `(\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)`
	hours = `(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S)`
	// Mailboxes have up to 64 letters, hosts up to 253, of addresses up to 189 (RFC 5321).
	mailbox = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
	email   = mailbox + `(\.` + mailbox + `){0,2}@` + label + `(\.` + label + `){0,5}`
	host    = `(` + label + `|` + longest + `)(\.` + label + `){0,6}`
	label   = first + `([A-Za-z0-9-]{0,26}` + letter + `)?|` + later + `{0,25}` + letter + `)?))?`
	longest = first + `([A-Za-z0-9-]{0,59}` + letter + `)?|` + later + `{0,58}` + letter + `)?))?`
	first   = letter + `(` + letter + `|[A-Za-z0-9-](` + letter
	later   = `-` + letter + `([A-Za-z0-9-]`
	letter  = `[A-Za-z0-9]`
	pointer = `(/([^~/]|~[01])*)*`
	// RFC 6570, 2: literals and variables of URI templates.
	literal       = `([!#$&(-;=?-\[\]_a-z~` + international + `]|` + percent + `)`
	variable      = name + `(\.?` + name + `)*(:[1-9]\d{0,3}|\*)?`
	name          = `(\w|` + percent + `)`
	percent       = `%[0-9A-Fa-f]{2}`
	international = `\x{a0}-\x{d7ff}\x{f900}-\x{fdcf}\x{fdf0}-\x{ffef}\x{10000}-\x{1fffd}`
	octet         = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	ipv4          = octet + `(\.` + octet + `){3}`
)

// uri returns the expression of URIs (RFC 3986) or, with relative, of references, in whose names
// and paths some more characters may be (RFC 3987).
func uri(more string, relative bool) string {
	letters := `A-Za-z0-9._~!$&'()*+,;=` + more
	chars := func(some string) string { return `([` + letters + some + `-]|` + percent + `)` }
	rest := `(/` + chars(":@") + `*)*`
	authority := `//(` + chars(":") + `*@)?([` + letters + `-]*|\[(([0-9A-Fa-f]{1,4}:){1,6}|:):([0-9A-Fa-f]{1,4})?\])(:\d*)?` +
		rest
	segments := chars(":@") + `+` + rest
	end := `(\?` + chars(":@/?") + `*)?(#` + chars(":@/?") + `*)?`
	path := `(` + authority + `|/(` + segments + `)?|`
	whole := `[A-Za-z][A-Za-z0-9+.-]*:` + path + segments + `)?` + end
	if relative { // without a colon in the first segment
		whole += `|` + path + chars("@") + `+` + rest + `)?` + end
	}
	return whole
}

// ipv6 returns the expression of the addresses of RFC 4291.
func ipv6() string {
	const group = `[0-9A-Fa-f]{1,4}`
	list := []string{`(` + group + `:){7}` + group, `(` + group + `:){6}` + ipv4}
	for before := range 8 {
		head := ""
		if before > 0 {
			head = fmt.Sprintf(`%s(:%s){0,%d}`, group, group, before-1)
			head = fmt.Sprintf(`(%s)`, head)
		}
		if after := 7 - before; after > 0 {
			list = append(list, fmt.Sprintf(`%s::(%s(:%s){0,%d})?`, head, group, group, after-1))
		} else {
			list = append(list, head+"::")
		}
		if after := 5 - before; after >= 0 {
			list = append(list, fmt.Sprintf(`%s::(%s:){0,%d}%s`, head, group, after, ipv4))
		}
	}
	return strings.Join(list, "|")
}

var compiledFormats = map[string]func() (*grammar.DFA, error){}

func init() {
	for name, expression := range formats {
		compiledFormats[name] = sync.OnceValues(func() (*grammar.DFA, error) {
			return grammar.Regexp("(?:"+expression+")", nil)
		})
	}
}
