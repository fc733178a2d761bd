package grammar_test

import (
	"context"
	"fmt"

	"unmask/grammar"
)

// An expression becomes an automaton of bytes, and with a vocabulary one of tokens, which says how
// many of them a text needs at least.
func ExampleRegexp() {
	budget := grammar.NewBudget(context.Background(), 1000)
	d, err := grammar.Regexp("(red|green) (ball|kite)", budget)
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Match("green kite"), d.Match("green kites"))
	words := []string{"r", "red", "green", " ", "ball", "kite", " kite"}
	v := grammar.NewVocabulary(len(words), func(id int32) (string, bool) { return words[id], true })
	tokens, err := d.Tokens(v, grammar.TokenOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(tokens.MinTokens[tokens.Start])
	// Output:
	// true false
	// 2
}
