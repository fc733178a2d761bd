package experiments

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"unmask/param"
)

// valueKind is what a field of a plan holds.
type valueKind struct {
	want     string
	list     bool
	tags     []string   // of YAML that a value may have; nil for any but null
	newValue func() any // a new value of the field's type
}

var (
	wordList      = valueKind{want: "a list", list: true, newValue: func() any { return new(string) }}
	singleWord    = valueKind{want: "one value", newValue: func() any { return new(string) }}
	singleInteger = valueKind{"an integer", false, []string{"!!int"}, func() any { return new(int) }}
	integerList   = valueKind{"a list of integers", true, []string{"!!int"},
		func() any { return new(int) }}
	seedList = valueKind{"a list of integers from 0 to 2^64-1", true, []string{"!!int"},
		func() any { return new(uint64) }}
	numberList = valueKind{"a list of numbers", true, []string{"!!int", "!!float"},
		func() any { return new(float64) }}
)

// valueKinds are the fields of a plan; parameters of a recipe are lists of words too.
var valueKinds = map[string]valueKind{
	"model":     singleWord,
	"kind":      singleWord,
	"judge":     singleWord,
	"inception": singleWord,
	"reference": singleWord,
	"samplers":  wordList,
	"steps":     integerList,
	"alpha":     numberList,
	"cache":     integerList,
	"seeds":     seedList,
	"n":         singleInteger,
	"batch":     singleInteger,
	"length":    singleInteger,
}

// checkValue returns an error for a value of another type than its field's: the decoder would read
// 1.5 as 1, and null in a list as 0. A field that is null is as one that is not there.
func checkValue(name string, n *yaml.Node) error {
	kind, ok := valueKinds[name]
	if !ok {
		kind = wordList
	}
	n = resolveAlias(n)
	if n.ShortTag() == "!!null" {
		return nil
	}
	values := []*yaml.Node{n}
	if kind.list {
		if n.Kind != yaml.SequenceNode {
			return fmt.Errorf("line %d: %s is %s, want %s", n.Line, name, describeNode(n), kind.want)
		}
		values = n.Content
	}
	for _, v := range values {
		v = resolveAlias(v)
		right := v.Kind == yaml.ScalarNode && v.ShortTag() != "!!null" &&
			(kind.tags == nil || slices.Contains(kind.tags, v.ShortTag()))
		if right && v.Decode(kind.newValue()) == nil {
			continue
		}
		verb := "is"
		if kind.list {
			verb = "has"
		}
		return fmt.Errorf("line %d: %s %s %s, want %s", v.Line, name, verb, describeNode(v), kind.want)
	}
	return nil
}

// resolveAlias returns the node that n stands for.
func resolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// describeNode returns a node for an error.
func describeNode(n *yaml.Node) string {
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
