package model_test

import (
	"context"
	"fmt"

	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// Alternating is a network of one's own: it holds it likely that neighbours differ.
type Alternating struct{ Length int }

// Spec says what sequences look like: two tokens, and the mask is a third one.
func (a Alternating) Spec() model.Spec {
	return model.Spec{Shape: []int{a.Length}, Outcomes: 2, Mask: 2}
}

// Forward returns the logits of all positions of all sequences, a row each.
func (a Alternating) Forward(_ context.Context, b *model.Batch) (model.Marginals, error) {
	length := len(b.Tokens) / b.Size
	logits := make([]float32, 2*len(b.Tokens))
	for row := range b.Tokens {
		position := row % length
		for _, neighbour := range []int{position - 1, position + 1} {
			if neighbour < 0 || neighbour >= length {
				continue
			}
			token := b.Tokens[row-position+neighbour]
			if token != 2 {
				logits[2*row+int(1-token)] += 4
			}
		}
	}
	return &model.Dense{Columns: 2, Logits: logits}, nil
}

// Any Denoiser runs under every sampler.
func ExampleDenoiser() {
	confidence := samplers.ChooseThenSample{Order: samplers.Confidence{}}
	request := generate.Request{Recipe: generate.Recipe{Sampler: confidence, Steps: 8}}
	options := generate.Options{Request: request}
	for step, err := range generate.Run(context.Background(), Alternating{Length: 8}, options) {
		if err != nil {
			panic(err)
		}
		if step.Done {
			fmt.Println(step.Sequences[0].Tokens)
		}
	}
	// Output: [0 1 0 1 0 1 0 1]
}
