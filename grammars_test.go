package unmask_test

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
)

// Models that decode from left to right, or change the length of a text, follow a grammar with
// another run than their own; asked for their own with a grammar, they refuse.
func TestGrammarsOfAllModels(t *testing.T) {
	const regex = `((2[0-9]|1(3[0-9]|40)) ){8}`
	for _, pack := range []string{"nemotron-labs-tiny", "wedlm-7b-tiny", "wedlm-8b-tiny",
		"dreamon-tiny", "sdar-tiny", "llada-tiny"} {
		m, err := unmask.LoadFS(os.DirFS("testdata/packs/"+pack), pack,
			unmask.Options{Backend: plain.New()})
		require.NoError(t, err)
		r := unmask.Request{Infill: "12[8]13", Seed: 1}
		r.Regex = regex
		for _, made := range tokens(t, m, unmask.Run{Request: r, N: 2}) {
			require.Regexp(t, "12 "+regex+"13", m.Text.Decode(made), pack)
		}
		if own, _ := m.Defaults(); own.Reuse.String() == "causal" {
			r.Overrides = unmask.Overrides{"reuse": "causal"}
			_, err = m.Prepare(t.Context(), r)
			require.ErrorContains(t, err, "regex is given, want none with reuse causal", pack)
		}
		if m.Spec().Growth != nil {
			_, err = m.Prepare(t.Context(), unmask.Request{Infill: "12[?]13",
				Constraints: unmask.Constraints{Grammar: unmask.Grammar{Regex: "(20 )*"}}})
			require.ErrorContains(t, err, "regex is given, want none with", pack)
		}
	}
}

// Six calls at once on one model give what each gives alone, with and without partial caching.
func TestGenerateAtOnce(t *testing.T) {
	text, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	picture, err := unmask.LoadFS(demo.Image(), "demo-image", unmask.Options{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		m *unmask.Model
		n int
		o unmask.Overrides
	}{
		"text":  {text, 2, unmask.Overrides{"sampler": "moment", "steps": "4"}},
		"image": {picture, 1, unmask.Overrides{"steps": "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(i int) (tokens [][]int32) {
				r := unmask.Run{N: c.n, Request: unmask.Request{Seed: uint64(i), Overrides: maps.Clone(c.o)}}
				if r.Overrides["cache"] = strconv.Itoa(i % 2); c.m.Text != nil {
					r.Length = 24
				}
				for step, err := range unmask.Generate(t.Context(), c.m, r) {
					if err != nil {
						t.Error(err)
						return nil
					}
					for _, q := range step.Sequences {
						if q.Finished {
							tokens = append(tokens, slices.Clone(q.Tokens))
						}
					}
				}
				return tokens
			}
			var alone, together [6][][]int32
			for i := range alone {
				alone[i] = run(i)
				require.Len(t, alone[i], c.n)
			}
			var calls sync.WaitGroup
			for i := range together {
				calls.Go(func() { together[i] = run(i) })
			}
			calls.Wait()
			require.Equal(t, alone, together)
		})
	}
}
