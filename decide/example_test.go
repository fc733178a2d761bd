package decide_test

import (
	"context"
	"fmt"
	"log"

	"unmask"
	"unmask/decide"
)

// A typed question about a text, answered in one pass. The tiny network has random weights, so the
// example prints what does not depend on them.
func ExampleAsk() {
	ctx := context.Background()
	m, err := unmask.Load(ctx, "../testdata/packs/laya-tiny", unmask.Options{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	question := decide.Question{
		Kind:         decide.Choice,
		Instructions: "Which department answers this letter?",
		Options:      []decide.Option{{Label: "billing"}, {Label: "repairs"}, {Label: "sales"}},
	}
	state := decide.State{Text: "The heating has been cold since Monday."}
	answers, err := decide.Ask(ctx, m, state, []decide.Question{question}, decide.Options{})
	if err != nil {
		log.Fatal(err)
	}
	sum := 0.0
	for _, p := range answers[0].P {
		sum += p
	}
	fmt.Printf("%d options, probabilities add to %.3f\n", len(answers[0].P), sum)
	// Output:
	// 3 options, probabilities add to 1.000
}
