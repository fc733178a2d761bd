//go:build unix

package demo_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/generate"
	"unmask/internal/simd"
)

// decoderDialogues makes TestDecodersTable measure again, with so many dialogues.
var decoderDialogues = flag.Int("decoders", 0, "dialogues of TestDecodersTable, 0 to measure nothing")

const (
	decoderResults = "../bench/results/decoders.json"
	decoderPage    = "../docs/samplers.md"
	decoderCommand = "go test ./demo -run DecodersTable -decoders 24 -timeout 60m"
)

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
	Recipe  string  `json:"recipe"`
	Right   int     `json:"right"`
	Tokens  int     `json:"tokens"` // of the answers
	Passes  int     `json:"passes"`
	Rows    int     `json:"rows"`              // computed, without those of the head
	Seconds float64 `json:"processor_seconds"` // user and system
}

// decoderFile is the file of results.
type decoderFile struct {
	Command   string          `json:"command"`
	Date      string          `json:"date"`
	Machine   string          `json:"machine"`
	Dialogues int             `json:"dialogues"`
	Results   []decoderResult `json:"results"`
}

// The table of decoders in docs/samplers.md is that of the kept results.
func TestDecodersTable(t *testing.T) {
	if *decoderDialogues > 0 {
		measureDecoders(t)
	}
	data, err := os.ReadFile(decoderResults)
	require.NoError(t, err)
	var file decoderFile
	require.NoError(t, json.Unmarshal(data, &file))
	var recipes []string
	for _, r := range file.Results {
		recipes = append(recipes, r.Recipe)
	}
	require.Equal(t, decoders, recipes)
	page, err := os.ReadFile(decoderPage)
	require.NoError(t, err)
	from, rest, ok := strings.Cut(string(page), "<!-- table: decoders -->\n")
	require.True(t, ok)
	old, after, ok := strings.Cut(rest, "\n\n")
	require.True(t, ok)
	if *decoderDialogues > 0 {
		require.NoError(t, os.WriteFile(decoderPage, []byte(from+"<!-- table: decoders -->\n"+
			file.table()+"\n"+after), 0o644))
		return
	}
	require.Equal(t, file.table(), old+"\n", decoderCommand+" prints the page")
}

// table returns the rows of the page.
func (f *decoderFile) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| recipe | right of %d | passes a reply | tokens a pass | rows a reply | "+
		"processor seconds a reply |\n|---|---|---|---|---|---|\n", f.Dialogues)
	n := float64(f.Dialogues)
	for _, r := range f.Results {
		fmt.Fprintf(&b, "| `%s` | %d | %.1f | %.1f | %.0f | %.2f |\n", r.Recipe, r.Right,
			float64(r.Passes)/n, float64(r.Tokens)/float64(r.Passes), float64(r.Rows)/n, r.Seconds/n)
	}
	return b.String()
}

// measureDecoders writes the results of all recipes, one after the other, on one thread.
func measureDecoders(t *testing.T) {
	m, err := unmask.LoadFS(demo.Chat(), "demo", unmask.Options{Threads: 1})
	require.NoError(t, err)
	level, err := simd.Select("")
	require.NoError(t, err)
	file := decoderFile{Command: decoderCommand, Date: time.Now().UTC().Format(time.DateOnly),
		Machine:   fmt.Sprintf("%s/%s, %s, one thread", runtime.GOOS, runtime.GOARCH, level),
		Dialogues: *decoderDialogues}
	for _, text := range decoders {
		r := decode(t, m, text)
		t.Logf("%+v", r)
		file.Results = append(file.Results, r)
	}
	data, err := json.MarshalIndent(file, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll("../bench/results", 0o755))
	require.NoError(t, os.WriteFile(decoderResults, append(data, '\n'), 0o644))
}

// decode answers the dialogues by a recipe.
func decode(t *testing.T, m *unmask.Model, text string) decoderResult {
	out := decoderResult{Recipe: text}
	overrides := generate.Overrides{}
	for i, part := range strings.Split(text, " ") {
		name, value, _ := strings.Cut(part, "=")
		if i == 0 {
			name, value = "sampler", part
		}
		overrides[name] = value
	}
	list := readDialogues(t)[:*decoderDialogues]
	began := processorSeconds(t)
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
	out.Seconds = processorSeconds(t) - began
	return out
}

// processorSeconds returns the processor time of this process.
func processorSeconds(t *testing.T) float64 {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
