package demo_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/generate"
	"unmask/internal/processor"
)

// decoderDialogues makes TestDecodersTable measure, with this number of dialogues, and print a line
// of JSON for each recipe, which bench/results/decoders.json keeps:
//
//	python3 tools/peers/results.py --out bench/results/decoders.json -- \
//		go test ./demo -run DecodersTable -decoders 24 -timeout 60m
var decoderDialogues = flag.Int("decoders", 0,
	"dialogues of TestDecodersTable, 0 to measure nothing")

// decoders are recipes for the replies of the embedded model, in the order of the table.
var decoders = []string{
	"p2 steps=64",
	"semi-ar(greedy,block=16) steps=64",
	"semi-ar(draft,block=16)",
	"semi-ar(greedy(threshold),block=16)",
	"semi-ar(greedy(threshold(relax=0.4)),block=16)",
	"semi-ar(greedy(threshold),block=16) reuse=prefix",
	"semi-ar(greedy(threshold),block=16) reuse=dual",
	"semi-ar(greedy(threshold),block=16) window=8",
	"semi-ar(greedy(threshold),block=16) window=24 window-sigma=4",
	"semi-ar(greedy(threshold),block=16) reuse=dual window=8",
	"semi-ar(greedy(factor),block=16)",
	"semi-ar(greedy(frechet),block=16)",
	"semi-ar(greedy(entropy-threshold),block=16)",
	"semi-ar(credit,block=16)",
	"greedy(pc) steps=64",
	"wino(block=16)",
	"greedy(multi-block(block=16))",
	"greedy(multi-block(block=16)) reuse=finished",
	"daedal(start=16,block=16)",
	"rho-eos(start=16,block=16)",
}

// decoderResult is what a recipe did with all dialogues.
type decoderResult struct {
	Recipe    string  `json:"name"`
	Dialogues int     `json:"dialogues"`
	Right     int     `json:"right"`
	Tokens    int     `json:"tokens"` // of the answers
	Passes    int     `json:"passes"`
	Rows      int     `json:"rows"`              // computed, without those of the head
	Seconds   float64 `json:"processor_seconds"` // user and system
}

// The kept results, of which docs/samplers.md has a table, are of all recipes.
func TestDecodersTable(t *testing.T) {
	if *decoderDialogues > 0 {
		m, err := unmask.LoadFS(demo.Chat(), "demo", unmask.Options{Threads: 1})
		require.NoError(t, err)
		for _, text := range decoders {
			require.NoError(t, json.NewEncoder(os.Stdout).Encode(decode(t, m, text)))
		}
		return
	}
	data, err := os.ReadFile("../bench/results/decoders.json")
	require.NoError(t, err)
	var file struct{ Rows []struct{ Name string } }
	require.NoError(t, json.Unmarshal(data, &file))
	var recipes []string
	for _, r := range file.Rows {
		recipes = append(recipes, r.Name)
	}
	require.Equal(t, decoders, recipes)
}

// decode answers the dialogues by a recipe.
func decode(t *testing.T, m *unmask.Model, text string) decoderResult {
	out := decoderResult{Recipe: text, Dialogues: *decoderDialogues}
	overrides := generate.Overrides{}
	for i, part := range strings.Split(text, " ") {
		name, value, _ := strings.Cut(part, "=")
		if i == 0 {
			name, value = "sampler", part
		}
		overrides[name] = value
	}
	list := readDialogues(t)[:*decoderDialogues]
	began := processor.Seconds()
	for i, d := range list {
		r := unmask.Request{Messages: d.Messages(), Seed: 1, Index: uint32(i), MaxTokens: 64,
			Overrides: maps.Clone(overrides)}
		q, err := m.Prepare(t.Context(), r)
		require.NoError(t, err, text)
		for step, err := range generate.Each(t.Context(), m.Denoiser, generate.PoolOptions{Size: 1},
			slices.Values([]generate.Request{q})) {
			require.NoError(t, err, text)
			p := step.Sequences[0]
			if !p.Done {
				continue
			}
			of := m.AnswerOf(&r, &q)
			answer := of.Shown(p.Tokens)
			if d.Right(answer.Text) {
				out.Right++
			}
			out.Passes += p.N
			out.Rows += p.Evaluated.Full*len(p.Tokens) + p.Evaluated.Partial
			out.Tokens += answer.To - of.From
		}
	}
	out.Seconds = processor.Seconds() - began
	return out
}
