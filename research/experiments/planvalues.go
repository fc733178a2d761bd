package experiments

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"unmask/param"
)

// valueKind is what a field of a plan holds.
type valueKind struct {
	want string
	list bool
	tags []string   // of YAML that a value may have; nil for any but null
	into func() any // a new value of the field's type
}

var (
	words    = valueKind{want: "a list", list: true, into: func() any { return new(string) }}
	word     = valueKind{want: "one value", into: func() any { return new(string) }}
	integer  = valueKind{"an integer", false, []string{"!!int"}, func() any { return new(int) }}
	integers = valueKind{"a list of integers", true, []string{"!!int"}, func() any { return new(int) }}
	seeds    = valueKind{"a list of integers from 0 to 2^64-1", true, []string{"!!int"},
		func() any { return new(uint64) }}
	numbers = valueKind{"a list of numbers", true, []string{"!!int", "!!float"},
		func() any { return new(float64) }}
)

// valueKinds are the fields of a plan; parameters of a recipe are lists of words too.
var valueKinds = map[string]valueKind{
	"model":     word,
	"kind":      word,
	"judge":     word,
	"inception": word,
	"reference": word,
	"samplers":  words,
	"steps":     integers,
	"alpha":     numbers,
	"cache":     integers,
	"seeds":     seeds,
	"n":         integer,
	"batch":     integer,
	"length":    integer,
}

// checkValue returns an error for a value of another type than its field's: the decoder would read
// 1.5 as 1, and null in a list as 0. A field that is null is as one that is not there.
func checkValue(name string, n *yaml.Node) error {
	kind, ok := valueKinds[name]
	if !ok {
		kind = words
	}
	n = target(n)
	if n.ShortTag() == "!!null" {
		return nil
	}
	values := []*yaml.Node{n}
	if kind.list {
		if n.Kind != yaml.SequenceNode {
			return fmt.Errorf("line %d: %s is %s, want %s", n.Line, name, shown(n), kind.want)
		}
		values = n.Content
	}
	for _, v := range values {
		v = target(v)
		right := v.Kind == yaml.ScalarNode && v.ShortTag() != "!!null" &&
			(kind.tags == nil || slices.Contains(kind.tags, v.ShortTag()))
		if right && v.Decode(kind.into()) == nil {
			continue
		}
		verb := "is"
		if kind.list {
			verb = "has"
		}
		return fmt.Errorf("line %d: %s %s %s, want %s", v.Line, name, verb, shown(v), kind.want)
	}
	return nil
}

// target returns the node that n stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// shown returns a node for an error.
func shown(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "names with values"
	case n.ShortTag() == "!!null":
		return "null"
	case n.ShortTag() == "!!str":
		return param.Quote(n.Value)
	}
	return fmt.Sprintf("%.40s", n.Value)
}
