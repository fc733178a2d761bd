// Command probe asks what a masked diffusion model knows before it opens anything: it trains a
// small classifier, a *probe*, on the network's hidden states at masked positions, and shows how
// often it tells whether the hidden token begins with a capital letter. The probe is a gorgonia
// graph whose matrix products run on the same kernels as the network.
//
// Run it with `go run ./docs/probe`. It shows three things that programs with networks of their own
// need: how to run one pass, how to read hidden states, and how to give tensors to gorgonia.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"unicode"
	"unicode/utf8"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"unmask"
	"unmask/demo"
	"unmask/model"
)

func main() {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	if err != nil {
		log.Fatal(err)
	}
	accuracy, majority, err := run(context.Background(), m)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("capital letters of masked tokens: the probe is right in %.1f %%, "+
		"the commoner answer in %.1f %%\n", 100*accuracy, 100*majority)
}

// Stories to train on, and others to test on.
const (
	trainStories = 8
	testStories  = 4
)

// run trains a probe on some stories of the model. It returns the share of masked positions of
// other stories at which the probe is right, and the share that has the commoner label.
func run(ctx context.Context, m *unmask.Model) (accuracy, majority float64, err error) {
	stories, err := writeStories(ctx, m, trainStories+testStories)
	if err != nil {
		return 0, 0, err
	}
	train, err := collectStates(ctx, m, stories[:trainStories])
	if err != nil {
		return 0, 0, err
	}
	test, err := collectStates(ctx, m, stories[trainStories:])
	if err != nil {
		return 0, 0, err
	}
	weights, err := trainProbe(m.Backend, train)
	if err != nil {
		return 0, 0, err
	}

	right := 0
	capitals := 0
	for i, label := range test.labels {
		if (score(weights, test.state(i)) > 0) == (label > 0) {
			right++
		}
		if label > 0 {
			capitals++
		}
	}
	n := len(test.labels)
	return float64(right) / float64(n), float64(max(capitals, n-capitals)) / float64(n), nil
}

// writeStories returns the tokens [length] of n stories.
func writeStories(ctx context.Context, m *unmask.Model, n int) ([][]int32, error) {
	// Few steps are enough here: the probe asks what the network sees, not how well it writes.
	request := unmask.Request{Seed: 1, Overrides: unmask.Overrides{"steps": "16"}}
	var stories [][]int32
	for step, err := range unmask.Generate(ctx, m, request, n) {
		if err != nil {
			return nil, err
		}
		if !step.Done {
			continue
		}
		for _, sequence := range step.Sequences {
			stories = append(stories, append([]int32(nil), sequence.Tokens...))
		}
	}
	return stories, nil
}

// examples are hidden states at masked positions, and what was masked there.
type examples struct {
	// states are the hidden states [positions, width], and a column of ones for the bias.
	states []float32
	width  int

	// labels [positions] are 1 where the masked token begins with a capital letter, else -1.
	labels []float32
}

// state returns the hidden state [width] of example i.
func (e *examples) state(i int) []float32 { return e.states[i*e.width : (i+1)*e.width] }

// collectStates masks every third word of each story, runs one pass over it and collects the
// hidden states at the masked positions.
func collectStates(ctx context.Context, m *unmask.Model, stories [][]int32) (*examples, error) {
	e := &examples{}
	for _, story := range stories {
		tokens := append([]int32(nil), story...)
		var rows []int32
		for position := 1; position < len(tokens); position += 3 {
			if startsWithLetter(m, tokens[position]) {
				tokens[position] = m.Spec().Mask
				rows = append(rows, int32(position))
			}
		}

		batch := &model.Batch{Tokens: tokens, Size: 1, Length: len(tokens), ReadRows: rows}
		marginals, err := m.Forward(ctx, batch)
		if err != nil {
			return nil, err
		}
		network, ok := marginals.(model.HiddenStates)
		if !ok {
			return nil, errors.New("the model shows no hidden states")
		}
		states, width, err := network.Hidden(rows)
		if err != nil {
			return nil, err
		}
		e.width = width + 1
		for i, row := range rows {
			e.states = append(e.states, states[i*width:(i+1)*width]...)
			e.states = append(e.states, 1)
			e.labels = append(e.labels, capitalLabel(m, story[row]))
		}
	}
	return e, nil
}

// startsWithLetter reports whether a token's text begins with a letter, after a space.
func startsWithLetter(m *unmask.Model, token int32) bool {
	return unicode.IsLetter(firstRune(m, token))
}

// capitalLabel returns 1 for a token whose text begins with a capital letter, else -1.
func capitalLabel(m *unmask.Model, token int32) float32 {
	if unicode.IsUpper(firstRune(m, token)) {
		return 1
	}
	return -1
}

// firstRune returns the first character of a token's text that is no space.
func firstRune(m *unmask.Model, token int32) rune {
	text, _ := m.Text.Token(token)
	for _, r := range text {
		if !unicode.IsSpace(r) {
			return r
		}
	}
	return utf8.RuneError
}

// trainProbe returns the weights [width] of a linear classifier with the least squared error of
// tanh(states w) against the labels. The engine computes the products and the gradients.
func trainProbe(engine tensor.Engine, e *examples) ([]float32, error) {
	g := gorgonia.NewGraph()
	states := matrix(g, engine, "states", len(e.labels), e.width, e.states)
	labels := matrix(g, engine, "labels", len(e.labels), 1, e.labels)
	weights := matrix(g, engine, "weights", e.width, 1, make([]float32, e.width))

	product, err := gorgonia.Mul(states, weights)
	if err != nil {
		return nil, err
	}
	predicted, err := gorgonia.Tanh(product)
	if err != nil {
		return nil, err
	}
	difference, err := gorgonia.Sub(predicted, labels)
	if err != nil {
		return nil, err
	}
	squared, err := gorgonia.Square(difference)
	if err != nil {
		return nil, err
	}
	loss, err := gorgonia.Mean(squared)
	if err != nil {
		return nil, err
	}
	if _, err := gorgonia.Grad(loss, weights); err != nil {
		return nil, err
	}

	machine := gorgonia.NewTapeMachine(g, gorgonia.BindDualValues(weights),
		gorgonia.WithEngine(engine))
	defer machine.Close()
	solver := gorgonia.NewAdamSolver(gorgonia.WithLearnRate(0.01))
	const rounds = 150
	for range rounds {
		if err := machine.RunAll(); err != nil {
			return nil, err
		}
		if err := solver.Step(gorgonia.NodesToValueGrads(gorgonia.Nodes{weights})); err != nil {
			return nil, err
		}
		machine.Reset()
	}
	return weights.Value().Data().([]float32), nil
}

// matrix adds a matrix with values on an engine to a graph.
func matrix(g *gorgonia.ExprGraph, engine tensor.Engine, name string, rows, columns int,
	values []float32) *gorgonia.Node {
	dense := tensor.New(tensor.WithShape(rows, columns), tensor.WithBacking(values),
		tensor.WithEngine(engine))
	return gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(rows, columns),
		gorgonia.WithName(name), gorgonia.WithValue(dense))
}

// score returns the sum of the products of weights and a state.
func score(weights, state []float32) float32 {
	var sum float32
	for i, w := range weights {
		sum += w * state[i]
	}
	return sum
}
