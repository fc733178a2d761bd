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

// These make TestDecoders measure, with this number of dialogues, and print a line of JSON for each
// recipe, which bench/results keeps:
//
//	python3 tools/peers/results.py --out bench/results/decoders.json -- \
//		go test ./demo -v -run TestDecoders -decoders 100 -timeout 60m
//	python3 tools/peers/results.py --out bench/results/decoder-curves.json -- \
//		go test ./demo -v -run TestDecoders -curves 100 -timeout 60m
var (
	decoderDialogues = flag.Int("decoders", 0, "dialogues for decoders.json, 0 to measure nothing")
	curveDialogues   = flag.Int("curves", 0, "dialogues for decoder-curves.json, 0 for none")
)

// decoders are recipes for the replies of the embedded model, in the order of the table.
var decoders = []string{
	"p2 steps=128",
	"semi-ar(greedy,block=16) steps=64",
	"semi-ar(draft,block=16)",
	"semi-ar(greedy(threshold),block=16)",
	"semi-ar(greedy(threshold(relax=0.4)),block=16)",
	"semi-ar(greedy(threshold),block=16) reuse=prefix",
	"semi-ar(greedy(threshold),block=16) reuse=dual",
	"semi-ar(greedy(threshold),block=16) reuse=block-dkv",
	"semi-ar(greedy(threshold),block=16) window=8",
	"semi-ar(greedy(threshold),block=16) window=24 window-sigma=4",
	"semi-ar(greedy(threshold),block=16) reuse=dual window=8",
	"semi-ar(greedy(threshold),block=16) reuse=block-dkv window=8",
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

// decoderCurves are rules with settings from careful to bold, for quality against tokens a pass.
var decoderCurves = []struct {
	curve, recipe string
	settings      []string
}{
	{"a fixed number", "semi-ar(greedy,block=16) steps=%s", []string{"64", "32", "16", "8"}},
	{"threshold", "semi-ar(greedy(threshold(theta=%s)),block=16)",
		[]string{"0.99", "0.9", "0.7", "0.5", "0.3"}},
	{"factor", "semi-ar(greedy(factor(f=%s)),block=16)", []string{"0.3", "1", "2", "4"}},
	{"frechet", "semi-ar(greedy(frechet(margin=%s)),block=16)", []string{"0.5", "0.02", "-0.5", "-1"}},
	{"entropy-threshold", "semi-ar(greedy(entropy-threshold(entropy=%s)),block=16)",
		[]string{"0.1", "0.5", "1", "2"}},
	{"credit", "semi-ar(credit(theta=%s),block=16)", []string{"0.95", "0.8", "0.6", "0.4"}},
	{"multi-block", "greedy(multi-block(entropy=%s,block=16))", []string{"0.1", "0.5", "1", "2"}},
}

// decoderResult is what a recipe did with all dialogues.
type decoderResult struct {
	Recipe    string  `json:"name"`
	Curve     string  `json:"curve,omitempty"`
	Dialogues int     `json:"dialogues"`
	Right     int     `json:"right"`
	Tokens    int     `json:"tokens"` // of the answers
	Passes    int     `json:"passes"`
	Rows      int     `json:"rows"`                        // computed, without those of the head
	Seconds   float64 `json:"processor_seconds,omitempty"` // user and system, one reply at a time
}

// The kept results, of which docs/samplers.md has a table and a plot, are of all recipes.
func TestDecoders(t *testing.T) {
	var curves []string
	of := map[string]string{} // recipe -> curve
	for _, c := range decoderCurves {
		for _, setting := range c.settings {
			recipe := strings.Replace(c.recipe, "%s", setting, 1)
			curves, of[recipe] = append(curves, recipe), c.curve
		}
	}
	for _, test := range []struct {
		name      string
		recipes   []string
		of        map[string]string // their curves
		dialogues int
		together  int // replies at once
	}{{"decoders", decoders, nil, *decoderDialogues, 1},
		{"decoder-curves", curves, of, *curveDialogues, 16}} {
		t.Run(test.name, func(t *testing.T) {
			if test.dialogues > 0 {
				m, err := unmask.LoadFS(demo.Chat(), "demo", unmask.Options{Threads: 1})
				require.NoError(t, err)
				for _, recipe := range test.recipes {
					r := decode(t, m, recipe, test.dialogues, test.together)
					r.Curve = test.of[recipe]
					require.NoError(t, json.NewEncoder(os.Stdout).Encode(r))
				}
				return
			}
			data, err := os.ReadFile("../bench/results/" + test.name + ".json")
			require.NoError(t, err)
			var file struct{ Rows []decoderRow }
			require.NoError(t, json.Unmarshal(data, &file))
			var recipes []string
			for _, r := range file.Rows {
				recipes = append(recipes, r.Name)
				require.Equal(t, test.of[r.Name], r.Curve)
			}
			require.Equal(t, test.recipes, recipes)
		})
	}
}

// decoderRow is a row of the kept results.
type decoderRow struct{ Name, Curve string }

// decode answers the first dialogues by a recipe, so many together.
func decode(t *testing.T, m *unmask.Model, text string, dialogues, together int) decoderResult {
	out := decoderResult{Recipe: text, Dialogues: dialogues}
	overrides := generate.Overrides{}
	for i, part := range strings.Split(text, " ") {
		name, value, _ := strings.Cut(part, "=")
		if i == 0 {
			name, value = "sampler", part
		}
		overrides[name] = value
	}
	list := readDialogues(t, "dialogues.jsonl")[:dialogues]
	asked, prepared := make([]unmask.Request, dialogues), make([]generate.Request, dialogues)
	began := processor.Seconds()
	for i, d := range list {
		var err error
		asked[i] = unmask.Request{Messages: d.messages(), Seed: 1, Index: uint32(i), MaxTokens: 64,
			Overrides: maps.Clone(overrides)}
		prepared[i], err = m.Prepare(t.Context(), asked[i])
		require.NoError(t, err, text)
	}
	for step, err := range generate.Each(t.Context(), m.Denoiser, generate.PoolOptions{Size: together},
		slices.Values(prepared)) {
		require.NoError(t, err, text)
		for _, p := range step.Sequences {
			if !p.Finished {
				continue
			}
			of := m.AnswerOf(&asked[p.Index], &prepared[p.Index])
			answer := of.Render(p.Tokens)
			if list[p.Index].right(answer.Text) {
				out.Right++
			}
			out.Passes += p.N
			out.Rows += p.Work.Full*len(p.Tokens) + p.Work.Partial
			out.Tokens += answer.To - of.From
		}
	}
	if together == 1 {
		out.Seconds = processor.Seconds() - began
	}
	return out
}
