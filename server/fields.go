package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"unmask/internal/jsonline"
	"unmask/param"
)

// fields reads the fields of a request by name. It keeps the first fault; reads after it return
// zeros. A field that the route never reads is an unknown one.
type fields struct {
	object map[string]json.RawMessage
	files  map[string][][]byte // of a form of parts, in memory
	free   func()              // is called when the request's body is not needed any more
	known  []string            // names that were read
	fault  *Fault
}

func (f *fields) fail(fault *Fault) { f.fault = cmp.Or(f.fault, fault) }

// refuse fails with a fault where bad is true.
func (f *fields) refuse(bad bool, fault *Fault) {
	if bad {
		f.fail(fault)
	}
}

// raw returns a field's JSON, nil where it is absent.
func (f *fields) raw(name string) json.RawMessage {
	f.known = append(f.known, name)
	if f.fault != nil {
		return nil
	}
	return f.object[name]
}

// value is raw, but treats null as absent: clients send null for fields that they leave open.
func (f *fields) value(name string) json.RawMessage {
	if raw := f.raw(name); string(raw) != "null" {
		return raw
	}
	return nil
}

// has reports whether a field is there and not null.
func (f *fields) has(name string) bool { return f.value(name) != nil }

// decode reads a field of any kind, and reports whether it is there and right. want says what it
// should be.
func (f *fields) decode(name string, to any, want string) bool {
	raw := f.value(name)
	if raw != nil && json.Unmarshal(raw, to) != nil {
		f.wrongType(name, raw, want)
		return false
	}
	return raw != nil
}

func (f *fields) wrongType(name string, raw []byte, want string) {
	found := jsonline.ValueKind(raw)
	if found == "a number" {
		found = cut(string(raw))
	}
	f.fail(bad("wrong_type", name, "%s is %s, want %s", name, found, want))
}

// cut shortens a text for an error.
func cut(text string) string {
	const most = 40
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// text reads a text, "" where it is absent.
func (f *fields) text(name string) string {
	raw := f.value(name)
	if raw == nil {
		return ""
	}
	return f.textOf(name, raw)
}

func (f *fields) textOf(name string, raw []byte) (text string) {
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		f.wrongType(name, raw, "a text")
	}
	return text
}

// needed reads a text that must be there.
func (f *fields) needed(name string) string {
	f.refuse(!f.has(name), missing(name, "a text"))
	return f.text(name)
}

// flag reads true or false.
func (f *fields) flag(name string) (on bool) {
	f.decode(name, &on, "true or false")
	return on
}

// whole reads a whole number, def where it is absent. null is refused.
func (f *fields) whole(name string, least, most, def int) int {
	raw := f.raw(name)
	if raw == nil {
		return def
	}
	return f.wholeOf(name, raw, least, most)
}

// maybe reads a whole number that may be null, def where it is absent.
func (f *fields) maybe(name string, least, most, def int) int {
	raw := f.value(name)
	if raw == nil {
		return def
	}
	return f.wholeOf(name, raw, least, most)
}

func (f *fields) wholeOf(name string, raw []byte, least, most int) int {
	want := fmt.Sprintf("%d to %d", least, most)
	text := string(raw)
	if !isWhole(text) {
		f.wrongType(name, raw, "a whole number, "+want)
		return least
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		f.fail(outOfRange(name, cut(text), want))
		return least
	}
	return n
}

// isWhole reports whether a number is written with digits alone.
func isWhole(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// seed reads a seed from its digits, in a number or a text, so that no float64 is between.
func (f *fields) seed(name string) (seed uint64, given bool) {
	raw := f.value(name)
	if raw == nil {
		return 0, false
	}
	text := string(raw)
	switch jsonline.ValueKind(raw) {
	case "a text":
		text = f.textOf(name, raw)
	case "a number":
	default:
		f.wrongType(name, raw, "a whole number")
		return 0, true
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil || !isWhole(text) {
		f.fail(outOfRange(name, cut(text), "a whole number, 0 to 18446744073709551615"))
	}
	return seed, true
}

// list reads the elements of a list.
func (f *fields) list(name string, raw []byte) (list []json.RawMessage) {
	if json.Unmarshal(raw, &list) != nil {
		f.wrongType(name, raw, "a list")
	}
	return list
}

// texts reads a text or a list of them.
func (f *fields) texts(name string) []string {
	raw := f.value(name)
	if raw == nil {
		return nil
	}
	if raw[0] == '"' {
		return []string{f.textOf(name, raw)}
	}
	var out []string
	for _, one := range f.list(name, raw) {
		out = append(out, f.textOf(name, one))
	}
	return out
}

// word reads one of some words, the first of them where it is absent.
func (f *fields) word(name string, words ...string) string {
	raw := f.value(name)
	if raw == nil {
		return words[0]
	}
	text := f.textOf(name, raw)
	f.refuse(!slices.Contains(words, text), outOfRange(name, param.Quote(text), param.JoinOr(words)))
	return text
}

// neutral refuses fields that would change the answer and cannot, unless they have a value that
// changes nothing. Values are compared as JSON.
func (f *fields) neutral(name string, values ...string) {
	raw := f.value(name)
	if raw == nil || slices.Contains(values, compact(raw)) {
		return
	}
	if x, err := strconv.ParseFloat(string(raw), 64); err == nil {
		for _, v := range values {
			if y, err := strconv.ParseFloat(v, 64); err == nil && x == y && !math.IsNaN(x) {
				return
			}
		}
	}
	found := cut(string(raw))
	if k := jsonline.ValueKind(raw); k == "an object" || k == "a list" {
		found = k
	}
	want := "it left out"
	if len(values) > 0 {
		want = param.JoinOr(values)
	}
	f.fail(bad("unsupported_parameter", name, "%s is %s, want %s", name, found, want))
}

// ignored are fields of OpenAI's that change no byte of an answer.
var ignored = []string{"user", "safety_identifier", "metadata", "store", "service_tier",
	"prompt_cache_key"}

// inner reads an object that is a field's value, or a part of one; at says where it is. Its fault
// is that of f.
func (f *fields) inner(at string, raw json.RawMessage, read func(o *fields)) {
	o := &fields{}
	if json.Unmarshal(raw, &o.object) != nil || o.object == nil {
		f.wrongType(at, raw, "an object")
		return
	}
	read(o)
	if fault := o.end(); fault != nil {
		fault.Param, fault.Message = at+"."+fault.Param, at+": "+fault.Message
		f.fail(fault)
	}
}

// each reads a list of objects, of at most some.
func (f *fields) each(name string, most int, read func(o *fields)) {
	raw := f.value(name)
	if raw == nil {
		return
	}
	list := f.list(name, raw)
	f.refuse(len(list) > most,
		bad("out_of_range", name, "%s is a list of %d, want at most %d", name, len(list), most))
	for i, one := range list {
		if f.fault != nil {
			return
		}
		f.inner(fmt.Sprintf("%s[%d]", name, i), one, read)
	}
}

// maybeInner reads an object that may be left out.
func (f *fields) maybeInner(name string, read func(o *fields)) {
	if raw := f.value(name); raw != nil {
		f.inner(name, raw, read)
	}
}

// end returns the first fault or, without one, refuses fields that were never read.
func (f *fields) end() *Fault {
	if f.fault != nil {
		return f.fault
	}
	f.known = append(f.known, ignored...)
	var unknown []string
	for name := range f.object {
		if !slices.Contains(f.known, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	name := slices.Min(unknown) // the same each time
	text := fmt.Sprintf("unknown field %s", param.Quote(name))
	near := param.Nearest(name, f.known)
	if lower := strings.ToLower(name); near == nil && slices.Contains(f.known, lower) {
		near = []string{lower}
	}
	if len(near) > 0 {
		text += ", did you mean " + param.JoinOr(near) + "?"
	}
	return bad("unknown_parameter", name, "%s", text)
}
