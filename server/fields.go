package server

import (
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
// zeros, so that a reader checks for a fault once, at its end. A field that the route never reads
// is an unknown one.
type fields struct {
	object map[string]json.RawMessage

	// files are those of a form of parts, in memory, by the part's name.
	files map[string][][]byte

	// release gives the memory of the request's body back. It may be called more than once.
	release func()

	// known are the names that were read, each once, in the order of their reading. isKnown has the
	// same names: a client may send a hundred thousand, and each is looked up.
	known   []string
	isKnown map[string]bool

	fault *Fault
}

// fail keeps a fault, unless there is one.
func (f *fields) fail(fault *Fault) {
	if f.fault == nil {
		f.fault = fault
	}
}

// failIf fails with a fault where wrong is true.
func (f *fields) failIf(wrong bool, fault *Fault) {
	if wrong {
		f.fail(fault)
	}
}

// accept makes names known whose values change no answer.
func (f *fields) accept(names ...string) {
	if f.isKnown == nil {
		f.isKnown = map[string]bool{}
	}
	for _, name := range names {
		if !f.isKnown[name] {
			f.isKnown[name] = true
			f.known = append(f.known, name)
		}
	}
}

// acceptAll makes all names of the object known.
func (f *fields) acceptAll() { f.accept(sortedKeys(f.object)...) }

// raw returns a field's JSON, nil where it is absent.
func (f *fields) raw(name string) json.RawMessage {
	f.accept(name)
	if f.fault != nil {
		return nil
	}
	return f.object[name]
}

// value is raw, but treats null as absent: clients send null for fields that they leave open.
func (f *fields) value(name string) json.RawMessage {
	raw := f.raw(name)
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// has reports whether a field is there and not null.
func (f *fields) has(name string) bool { return f.value(name) != nil }

// decode reads a field of any kind, and reports whether it is there and right. want says what it
// should be.
func (f *fields) decode(name string, target any, want string) bool {
	raw := f.value(name)
	if raw == nil {
		return false
	}
	if json.Unmarshal(raw, target) != nil {
		f.failType(name, raw, want)
		return false
	}
	return true
}

// failType fails because a field's JSON is of another type than want says. The error shows a number
// as it is, but of other values only the type: they may be long, or private.
func (f *fields) failType(name string, raw []byte, want string) {
	found := jsonline.ValueKind(raw)
	if found == "a number" {
		found = truncate(string(raw))
	}
	f.fail(fieldFault("wrong_type", name, "%s is %s, want %s", name, found, want))
}

// truncate shortens a text for an error.
func truncate(text string) string { return shorten(text, 40) }

// text reads a text, "" where it is absent.
func (f *fields) text(name string) string {
	raw := f.value(name)
	if raw == nil {
		return ""
	}
	return f.parseText(name, raw)
}

// parseText returns the text that raw is, the value of a field or a part of it.
func (f *fields) parseText(name string, raw []byte) (text string) {
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		f.failType(name, raw, "a text")
	}
	return text
}

// requiredText reads a text that must be there.
func (f *fields) requiredText(name string) string {
	f.failIf(!f.has(name), missingFault(name, "a text"))
	return f.text(name)
}

// flag reads true or false, false where it is absent.
func (f *fields) flag(name string) (on bool) {
	f.decode(name, &on, "true or false")
	return on
}

// integer reads a whole number from low to high, or byDefault where it is absent. null is refused.
func (f *fields) integer(name string, low, high, byDefault int) int {
	raw := f.raw(name)
	if raw == nil {
		return byDefault
	}
	return f.parseInteger(name, raw, low, high)
}

// integerOrNull is integer, but treats null as absent.
func (f *fields) integerOrNull(name string, low, high, byDefault int) int {
	raw := f.value(name)
	if raw == nil {
		return byDefault
	}
	return f.parseInteger(name, raw, low, high)
}

// parseInteger returns the whole number that raw is.
func (f *fields) parseInteger(name string, raw []byte, low, high int) int {
	want := fmt.Sprintf("%d to %d", low, high)
	text := string(raw)
	if !isInteger(text) {
		f.failType(name, raw, "a whole number, "+want)
		return low
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		f.fail(rangeFault(name, truncate(text), want))
		return low
	}
	return n
}

// isInteger reports whether a number is written with digits alone.
func isInteger(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// seed reads a seed from its digits, in a number or a text. It is never a float64, which could not
// hold all seeds.
func (f *fields) seed(name string) (seed uint64, found bool) {
	raw := f.value(name)
	if raw == nil {
		return 0, false
	}
	text := string(raw)
	switch jsonline.ValueKind(raw) {
	case "a text":
		text = f.parseText(name, raw)
	case "a number":
	default:
		f.failType(name, raw, "a whole number")
		return 0, true
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil || !isInteger(text) {
		f.fail(rangeFault(name, truncate(text), "a whole number, 0 to 18446744073709551615"))
	}
	return seed, true
}

// parseList returns the elements of the list that raw is, which are parts of it.
func (f *fields) parseList(name string, raw []byte) []json.RawMessage {
	if jsonline.ValueKind(raw) != "a list" {
		f.failType(name, raw, "a list")
		return nil
	}
	return slices.Collect(jsonline.Elements(raw))
}

// countList returns the number of elements of the list that raw is.
func (f *fields) countList(name string, raw []byte) (n int) {
	if jsonline.ValueKind(raw) != "a list" {
		f.failType(name, raw, "a list")
		return 0
	}
	for range jsonline.Elements(raw) {
		n++
	}
	return n
}

// texts reads a text or a list of them.
func (f *fields) texts(name string) []string {
	raw := f.value(name)
	if raw == nil {
		return nil
	}
	if raw[0] == '"' {
		return []string{f.parseText(name, raw)}
	}
	var texts []string
	for _, element := range f.parseList(name, raw) {
		texts = append(texts, f.parseText(name, element))
	}
	return texts
}

// oneOf reads one of some words, the first of them where it is absent.
func (f *fields) oneOf(name string, words ...string) string {
	raw := f.value(name)
	if raw == nil {
		return words[0]
	}
	text := f.parseText(name, raw)
	if !slices.Contains(words, text) {
		f.fail(rangeFault(name, param.Quote(text), param.JoinOr(words)))
	}
	return text
}

// requireNeutral refuses a field that would change the answer and cannot, unless it has one of the
// values that change nothing. Values are compared as JSON, and numbers by their value: 0.0 is 0.
func (f *fields) requireNeutral(name string, values ...string) {
	raw := f.value(name)
	if raw == nil || slices.Contains(values, compactJSON(raw)) {
		return
	}
	if x, err := strconv.ParseFloat(string(raw), 64); err == nil && !math.IsNaN(x) {
		equal := func(value string) bool {
			y, err := strconv.ParseFloat(value, 64)
			return err == nil && x == y
		}
		if slices.ContainsFunc(values, equal) {
			return
		}
	}

	found := truncate(string(raw))
	if kind := jsonline.ValueKind(raw); kind == "an object" || kind == "a list" {
		found = kind
	}
	want := "it left out"
	if len(values) > 0 {
		want = param.JoinOr(values)
	}
	f.fail(fieldFault("unsupported_parameter", name, "%s is %s, want %s", name, found, want))
}

// ignored are fields of OpenAI's that change no byte of an answer.
var ignored = []string{"user", "safety_identifier", "metadata", "store", "service_tier",
	"prompt_cache_key"}

// readObject reads an object that is a field's value, or a part of one; path says where it is. Its
// fault is that of f.
func (f *fields) readObject(path string, raw json.RawMessage, read func(o *fields)) {
	o := &fields{object: jsonline.Fields(raw)}
	if o.object == nil {
		f.failType(path, raw, "an object")
		return
	}
	read(o)
	if fault := o.finish(); fault != nil {
		fault.Param = shorten(path+"."+fault.Param, maxFaultName)
		fault.Message = path + ": " + fault.Message
		f.fail(fault)
	}
}

// readObjects reads a list of at most max objects.
func (f *fields) readObjects(name string, max int, read func(o *fields)) {
	raw := f.value(name)
	if raw == nil {
		return
	}
	if n := f.countList(name, raw); n > max {
		f.fail(fieldFault("out_of_range", name, "%s is a list of %d, want at most %d", name, n, max))
		return
	}
	for i, element := range f.parseList(name, raw) {
		if f.fault != nil {
			return
		}
		f.readObject(fmt.Sprintf("%s[%d]", name, i), element, read)
	}
}

// readOptionalObject reads an object that may be left out.
func (f *fields) readOptionalObject(name string, read func(o *fields)) {
	if raw := f.value(name); raw != nil {
		f.readObject(name, raw, read)
	}
}

// finish returns the first fault or, without one, refuses fields that were never read: a
// misspelled field would otherwise change nothing, and nobody would notice.
func (f *fields) finish() *Fault {
	if f.fault != nil {
		return f.fault
	}
	f.accept(ignored...)
	var unknown []string
	for name := range f.object {
		if !f.isKnown[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}

	name := slices.Min(unknown) // the same each time, although a map has no order
	text := fmt.Sprintf("unknown field %s", param.Quote(name))
	near := param.Nearest(name, f.known)
	if lower := strings.ToLower(name); near == nil && f.isKnown[lower] {
		near = []string{lower}
	}
	if len(near) > 0 {
		text += ", did you mean " + param.JoinOr(near) + "?"
	}
	return fieldFault("unknown_parameter", name, "%s", text)
}
