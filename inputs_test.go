package unmask_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/generate"
	"unmask/testkit/refusal"
)

// A byte order mark does not make prompts of lines that are objects.
func TestReadInputsMarked(t *testing.T) {
	list, err := unmask.ReadInputs(strings.NewReader("\ufeff{\"prompt\": \"a\"}\r\n"))
	require.NoError(t, err)
	r, _, err := list[0].ApplyTo(unmask.Request{})
	require.NoError(t, err)
	require.Equal(t, "a", r.Prompt)
}

func TestReadInputs(t *testing.T) {
	list, err := unmask.ReadInputs(strings.NewReader("Once upon\n\n  Lily\r\n[5] {x}"))
	require.NoError(t, err)
	require.Equal(t, inputs(unmask.Request{Prompt: "Once upon"}, unmask.Request{Prompt: "  Lily"},
		unmask.Request{Prompt: "[5] {x}"}), list)
	list, err = unmask.ReadInputs(strings.NewReader(
		`{"prompt": "a", "seed": 18446744073709551615}` + "\n\n" + `{"infill": "b [3]"}` + "\n{}\n"))
	require.NoError(t, err)
	require.Len(t, list, 3)
	r, seeded, err := list[0].ApplyTo(unmask.Request{Seed: 3, Length: 7})
	require.NoError(t, err)
	require.True(t, seeded)
	require.Equal(t, unmask.Request{Prompt: "a", Seed: 1<<64 - 1, Length: 7}, r)
	r, seeded, err = list[1].ApplyTo(unmask.Request{Seed: 3})
	require.NoError(t, err)
	require.False(t, seeded)
	require.Equal(t, unmask.Request{Infill: "b [3]", Seed: 3}, r)
	list, err = unmask.ReadInputs(strings.NewReader("{x\n{\"prompt\": 1}"))
	require.NoError(t, err, "the first line is no object: all are prompts")
	require.Len(t, list, 2)
	for text, want := range map[string]string{
		"":                                  "there are 0 lines, want at least 1",
		" \n\n":                             "there are 0 lines, want at least 1",
		"{}\n{\"promt\": \"x\"}":            `line 2 is "{\"promt\": \"x\"}", want an object with prompt`,
		"{}\nx":                             `line 2 is "x", want an object`,
		"{}\n{} {}":                         `line 2 is "{} {}", want an object`,
		"{}\n{\"seed\": -1}":                "seed is -1, want 0 to 2^64-1",
		"{}\n{\"seed\": \"7\"}":             "seed is a string, want 0 to 2^64-1",
		"{\"prompt\": 1}":                   "prompt is a number, want a string",
		"{\"prompt\": \"a":                  "line 1 is",
		"a\nb\xff":                          "line 2: byte 1 is 0xff, want UTF-8",
		"{\"prompt\": \"\xff\"}":            "line 1: byte 12 is 0xff, want UTF-8",
		"{\"prompt\": \"a\"} x":             "line 1 is",
		`{"prompt": "a", "infill":"b"}`:     "line 1: prompt and infill together, want one of them",
		"a\n" + strings.Repeat("x", 17<<20): "line 2 has more than 16777216 bytes",
	} {
		_, err := unmask.ReadInputs(strings.NewReader(text))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
		require.Less(t, len(err.Error()), 300)
	}
}

// An input of what JSON has no text for is refused, as the request itself is.
func TestInputOfNoUTF8(t *testing.T) {
	for _, r := range []unmask.Request{{Prompt: "ab\xff"}, {Infill: "ab\xff[3]"}, {Suffix: "ab\xff"}} {
		_, _, err := unmask.InputOf(r).ApplyTo(unmask.Request{})
		require.EqualError(t, err, "byte 2 is 0xff, want UTF-8")
	}
}

// A sample of a list has the bytes that its prompt gives alone. An input with a seed of its own has
// the bytes of that seed's first samples.
func TestRequestsAreRunsOfTheirOwn(t *testing.T) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Threads: 1})
	require.NoError(t, err)
	list := []unmask.Request{{Prompt: "Lily"}, {Infill: "Once [6] boy", Seed: 9}, {}}
	base := unmask.Request{Seed: 3, Length: 20}
	requests, err := m.PrepareList(t.Context(), base, inputs(list...))
	require.NoError(t, err)
	require.Equal(t, 20+len(m.Spec().BeforeText), requests.Longest)
	got := map[int][]int32{}
	var samples []generate.Request
	for i := 1; i <= 5; i++ {
		samples = append(samples, requests.Prepared(i))
	}
	for step, err := range generate.Each(t.Context(), m.Denoiser, generate.PoolOptions{Size: 4},
		slices.Values(samples)) {
		require.NoError(t, err)
		for _, q := range step.Sequences {
			if q.Done {
				got[1+q.Number] = slices.Clone(q.Tokens)
			}
		}
	}
	require.Len(t, got, 5)
	for i, tokens := range got {
		alone := list[i%3]
		alone.Index, alone.Length = uint32(i), 20
		if alone.Seed != 0 {
			alone.Index = uint32(i / 3)
		} else {
			alone.Seed = 3
		}
		require.Equal(t, made(t, m, alone), tokens, "sample %d", i)
	}
	lines := inputs(unmask.Request{}, unmask.Request{Infill: "To be"})
	_, err = m.PrepareList(t.Context(), base, lines)
	refusal.RequireText(t, err, "input 1: infill: no hole")
	steps := unmask.Request{Overrides: generate.Overrides{"steps": "8", "sampler": "moment"}}
	for holes, want := range map[string]int{"a [4]": 4, "a [9] b[3]": 8} { // one a position at most
		q, err := m.Prepare(t.Context(), unmask.Request{Overrides: steps.Overrides, Infill: holes})
		require.NoError(t, err)
		require.Equal(t, want, q.Steps)
	}
	_, err = m.PrepareList(t.Context(), steps, inputs(unmask.Request{Infill: "a [4]"},
		unmask.Request{Infill: "a [9]"}))
	require.NoError(t, err)
	requests, err = m.PrepareList(t.Context(),
		unmask.Request{Overrides: generate.Overrides{"sampler": "moment"}},
		inputs(unmask.Request{Infill: "a [4]"}))
	require.NoError(t, err)
	require.Equal(t, 6+m.Spec().SpecialCount(), requests.Longest)
	require.Equal(t, 4, requests.Prepared(0).Steps)
}

func inputs(list ...unmask.Request) (out []unmask.Input) {
	for _, r := range list {
		out = append(out, unmask.InputOf(r))
	}
	return out
}

// A file of a million inputs is refused before any is prepared.
func TestInputsAreBounded(t *testing.T) {
	_, _, err := unmask.ReadFASTA(strings.NewReader(strings.Repeat(">x\nEVQ\n", 100_001)))
	require.EqualError(t, err, "there are 100001 records, want at most 100000")
	_, err = unmask.ReadInputs(strings.NewReader(strings.Repeat("EVQ\n", 1_000_000)))
	require.EqualError(t, err, "there are more than 100000 lines, want at most that")
}
