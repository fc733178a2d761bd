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

// textAutomaton returns the automaton of texts as JSON strings.
func (w *walker) textAutomaton(t *texts) (*grammar.DFA, error) {
	key := fmt.Sprint(t.minLength, w.maxCharacters(t), min(w.bounds.Exact, t.maxLength), t.matching,
		t.notMatching)
	key = fmt.Sprintf("%s%q%v%q", key, t.allowed, t.allowed == nil, t.excluded)
	return w.scalar(key, func() (*grammar.DFA, error) {
		if t.allowed != nil {
			return w.quotedChoices(t.allowed)
		}
		d, err := w.contentAutomaton(t)
		if err == nil {
			d, err = quoteAutomaton(d, w.budget)
		}
		if err != nil || len(t.excluded) == 0 {
			return d, err
		}
		excluded, err := w.quotedChoices(t.excluded)
		if err != nil {
			return nil, err
		}
		return grammar.Subtract(d, excluded, w.budget)
	})
}

// quotedChoices returns the automaton of a list of texts as JSON strings.
func (c *compiler) quotedChoices(list []string) (*grammar.DFA, error) {
	quoted := make([]string, len(list))
	for i, t := range list {
		quoted[i] = quoteText(t)
	}
	return grammar.Choices(quoted, c.budget)
}

// maxCharacters returns the most characters that texts have within the bounds, -1 for any number.
// The bounds leave minLength characters at least, so that some text remains.
func (w *walker) maxCharacters(t *texts) int {
	return min(t.maxLength, max(w.bounds.Text, t.minLength))
}

// growsWithBounds reports whether the number of states grows with the bounds.
func (t *texts) growsWithBounds() bool { return t.allowed == nil && t.maxLength > levels[0].Text }

// estimateTextStates returns about how many states texts have whose number grows with the bounds.
func (w *walker) estimateTextStates(t *texts) int {
	const exact, coarse = 9, 2 // states of a character, with the bytes of UTF-8 and escapes
	characters := w.maxCharacters(t)
	counted := min(characters, max(t.minLength, w.bounds.Exact))
	states := exact*counted + coarse*(characters-counted)
	for _, m := range t.matching { // most patterns are of characters of one byte
		states = min(states, m.States()*characters)
	}
	return states
}

// contentAutomaton returns the automaton of texts in characters, without those that are excluded.
// The length comes last, because it makes the largest automaton.
func (w *walker) contentAutomaton(t *texts) (*grammar.DFA, error) {
	d, err := lengthAutomaton(0, -1, 0, w.budget)
	for _, m := range t.matching {
		if err == nil {
			d, err = grammar.Intersect(d, m, w.budget)
		}
	}
	for _, m := range t.notMatching {
		if err == nil {
			d, err = grammar.Subtract(d, m, w.budget)
		}
	}
	if err != nil || t.minLength == 0 && t.maxLength < 0 {
		return d, err
	}
	length, err := lengthAutomaton(t.minLength, w.maxCharacters(t), w.bounds.Exact, w.budget)
	if err != nil || len(t.matching)+len(t.notMatching) == 0 {
		return length, err
	}
	return grammar.Intersect(d, length, w.budget)
}

// grain is how many characters another one than a plain one may count for.
const grain = 8

// lengthAutomaton returns the automaton of texts of minLength to maxLength characters, -1 for any
// number.
//
// After exact characters, one that is not written as one byte counts as many as lead to a multiple
// of grain. Each number of characters has a state, and if the bytes of UTF-8 and escapes could
// follow all of them, each would need several more. So a long text of such characters may not be
// written, but none is too long.
func lengthAutomaton(minLength, maxLength, exact int, budget *grammar.Budget) (*grammar.DFA,
	error) {
	if minLength > budget.States() {
		return nil, &grammar.TooLargeError{Limit: budget.States()}
	}
	b := grammar.NewBuilder(budget)
	last := max(maxLength, 0)
	if maxLength < 0 {
		last = minLength
		exact = minLength
	}
	exact = max(exact, minLength)
	target := b.AddState()
	states := []int32{b.AddState()} // by the number of characters
	for len(states) <= last && !b.Full() {
		states = append(states, b.AddState())
	}
	if maxLength < 0 {
		loop := states[len(states)-1]
		b.AddAnyRune(loop, loop)
	}
	wide := int32(-1) // reads characters of several bytes that lead to the next multiple of grain
	for n, s := range states {
		if n >= minLength {
			b.AddEmpty(s, target)
		}
		if n+1 == len(states) {
			break
		}
		if n < exact {
			b.AddAnyRune(s, states[n+1])
			continue
		}
		multiple := (n/grain + 1) * grain
		if multiple >= len(states) {
			wide = -1
		} else if wide < 0 || n%grain == 0 {
			wide = b.AddState()
			addRuneRanges(b, wide, states[multiple],
				0, ' '-1, '"', '"', '\\', '\\', utf8.RuneSelf, unicode.MaxRune)
		}
		if wide >= 0 {
			b.AddEmpty(s, wide)
		}
		addRuneRanges(b, s, states[n+1], ' ', '!', '#', '[', ']', utf8.RuneSelf-1)
	}
	return b.Build(states[0], target)
}

// addRuneRanges adds edges for pairs of a first and a last character.
func addRuneRanges(b *grammar.Builder, source, target int32, pairs ...rune) {
	for i := 0; i < len(pairs); i += 2 {
		b.AddRunes(source, target, pairs[i], pairs[i+1])
	}
}

// quoteAutomaton returns the automaton of the JSON strings of d's texts. Control characters without
// a short escape are left out.
func quoteAutomaton(d *grammar.DFA, budget *grammar.Budget) (*grammar.DFA, error) {
	b := grammar.NewBuilder(budget)
	addStates(b, d.States()) // with the numbers that they have in d
	source := b.AddState()
	target := b.AddState()
	if d.Empty() {
		return b.Build(source, target)
	}
	b.AddRange(source, d.Start(), '"', '"')
	for s := range int32(d.States()) {
		if d.Accepts(s) {
			b.AddRange(s, target, '"', '"')
		}
		escape := int32(-1) // the state after a backslash
		for _, e := range d.Out(s) {
			for _, c := range "\"\\\b\f\n\r\t" {
				if byte(c) < e.Lo || byte(c) > e.Hi {
					continue
				}
				if escape < 0 {
					escape = b.AddState()
					b.AddRange(s, escape, '\\', '\\')
				}
				letter := escapes[c][1]
				b.AddRange(escape, e.To, letter, letter)
			}
			addUnescaped(b, s, e)
		}
	}
	return b.Build(source, target)
}

// addUnescaped adds the bytes of an edge that JSON does not escape, from a state.
func addUnescaped(b *grammar.Builder, source int32, e grammar.Edge) {
	lo := max(e.Lo, ' ')
	for _, skip := range []byte("\"\\") {
		if lo <= skip && skip <= e.Hi {
			if lo < skip {
				b.AddRange(source, e.To, lo, skip-1)
			}
			lo = skip + 1
		}
	}
	if lo <= e.Hi {
		b.AddRange(source, e.To, lo, e.Hi)
	}
}

// contains reports whether a text is one of those described.
func (t *texts) contains(s string) bool {
	n := utf8.RuneCountInString(s)
	if n < t.minLength || t.maxLength >= 0 && n > t.maxLength {
		return false
	}
	if t.allowed != nil && !slices.Contains(t.allowed, s) || slices.Contains(t.excluded, s) {
		return false
	}
	for _, m := range t.matching {
		if !m.Match(s) {
			return false
		}
	}
	for _, m := range t.notMatching {
		if m.Match(s) {
			return false
		}
	}
	return true
}

// formats are the formats that are checked, as regular expressions of whole texts. Others, but for
// regex, do not restrict what is valid.
//
// What validators disagree about is left out, so that each of them accepts what is written: seconds
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
func uri(extra string, relative bool) string {
	letters := `A-Za-z0-9._~!$&'()*+,;=` + extra
	character := func(punctuation string) string {
		return `([` + letters + punctuation + `-]|` + percent + `)`
	}
	moreSegments := `(/` + character(":@") + `*)*`
	segments := character(":@") + `+` + moreSegments

	userInfo := `(` + character(":") + `*@)?`
	address := `\[(([0-9A-Fa-f]{1,4}:){1,6}|:):([0-9A-Fa-f]{1,4})?\]`
	authority := `//` + userInfo + `([` + letters + `-]*|` + address + `)(:\d*)?` + moreSegments
	queryAndFragment := `(\?` + character(":@/?") + `*)?(#` + character(":@/?") + `*)?`

	beginPath := `(` + authority + `|/(` + segments + `)?|`
	expression := `[A-Za-z][A-Za-z0-9+.-]*:` + beginPath + segments + `)?` + queryAndFragment
	if relative { // without a colon in the first segment
		expression += `|` + beginPath + character("@") + `+` + moreSegments + `)?` + queryAndFragment
	}
	return expression
}

// ipv6 returns the expression of the addresses of RFC 4291.
func ipv6() string {
	const group = `[0-9A-Fa-f]{1,4}`
	list := []string{`(` + group + `:){7}` + group, `(` + group + `:){6}` + ipv4}
	for headGroups := range 8 { // groups before ::
		head := ""
		if headGroups > 0 {
			head = fmt.Sprintf(`(%s(:%s){0,%d})`, group, group, headGroups-1)
		}
		if tailGroups := 7 - headGroups; tailGroups > 0 {
			list = append(list, fmt.Sprintf(`%s::(%s(:%s){0,%d})?`, head, group, group, tailGroups-1))
		} else {
			list = append(list, head+"::")
		}
		if tailGroups := 5 - headGroups; tailGroups >= 0 {
			list = append(list, fmt.Sprintf(`%s::(%s:){0,%d}%s`, head, group, tailGroups, ipv4))
		}
	}
	return strings.Join(list, "|")
}

// compiledFormats are the automata of formats, each made when a schema first uses it.
var compiledFormats = map[string]func() (*grammar.DFA, error){}

func init() {
	for name, expression := range formats {
		compiledFormats[name] = sync.OnceValues(func() (*grammar.DFA, error) {
			return grammar.Regexp("(?:"+expression+")", nil)
		})
	}
}
