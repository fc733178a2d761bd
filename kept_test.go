package unmask_test

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend"
	"unmask/generate"
)

// drawnHoles returns how often one step draws each text of the holes of a sequence.
func drawnHoles(t *testing.T, m *unmask.Model, r unmask.Request, n int) map[string]int {
	q, err := m.Prepare(t.Context(), r)
	require.NoError(t, err)
	counts := map[string]int{}
	for step, err := range generate.Run(t.Context(), m.Denoiser,
		generate.Options{Request: q, N: n, Batch: 200}) {
		require.NoError(t, err)
		if !step.Done {
			continue
		}
		for _, s := range step.Sequences {
			var hole []int32
			for i, id := range r.Tokens {
				if id == m.Spec().Mask {
					hole = append(hole, s.Tokens[i])
				}
			}
			counts[m.Text.Decode(hole)]++
		}
	}
	return counts
}

// requireSameLaw requires that two samples may be of one law: their chi-square statistic is within
// five standard deviations.
func requireSameLaw(t *testing.T, a, b map[string]int, what ...any) {
	total := func(counts map[string]int) (n float64) {
		for _, count := range counts {
			n += float64(count)
		}
		return n
	}
	ratio := math.Sqrt(total(a) / total(b))
	statistic := 0.0
	cells := 0
	add := func(x, y float64) {
		d := x/ratio - y*ratio
		statistic += d * d / (x + y)
		cells++
	}
	restA, restB := 0.0, 0.0
	for text := range b {
		if _, ok := a[text]; !ok {
			restB += float64(b[text])
		}
	}
	for text, count := range a {
		x, y := float64(count), float64(b[text])
		if x+y < 10 {
			restA += x
			restB += y
			continue
		}
		add(x, y)
	}
	if restA+restB >= 10 {
		add(restA, restB)
	}
	require.Greater(t, cells, 4, what...)
	k := float64(cells - 1)
	z := (math.Cbrt(statistic/k) - (1 - 2/(9*k))) / math.Sqrt(2/(9*k))
	require.Less(t, z, 5.0, what...)
}

// One step under a language draws what free draws have of it: on the demo and on packs, over
// precisions.
func TestOneStepIsFreeDrawsThatAreKept(t *testing.T) {
	const n = 1200
	for _, c := range []struct {
		path, avoided string
		precision     backend.Precision
		filter        unmask.Overrides
	}{
		{"demo/text", "e", backend.F32, nil},
		{"demo/text", "e", backend.Int8, unmask.Overrides{"temperature": "1.5", "top-k": "50"}},
		{"demo/chat", "a", backend.BF16, nil},
		{"testdata/packs/lfm2-diffusion-tiny", "[a-m]", backend.F32, nil},
		{"testdata/packs/esm-tiny", "[LSG]", backend.Int8, nil},
	} {
		m, err := unmask.Load(t.Context(), c.path, unmask.Options{Precision: c.precision})
		require.NoError(t, err)
		mask := m.Spec().Mask
		known, err := m.Text.Encode("A")
		require.NoError(t, err)
		free := unmask.Request{Overrides: unmask.Overrides{"sampler": "random", "steps": "1"}}
		maps.Copy(free.Overrides, c.filter)
		free.Tokens = []int32{known[0], mask, known[0], mask, known[0]}
		free.Tokens = slices.Concat(m.Spec().BeforeText, free.Tokens, m.Spec().AfterText)

		kept := drawnHoles(t, m, free, n)
		avoids := free
		avoids.Seed = 1
		avoids.Avoid = []string{c.avoided}
		made := drawnHoles(t, m, avoids, n)
		for text := range kept {
			if regexp.MustCompile(c.avoided).MatchString(text) {
				delete(kept, text)
			}
		}
		require.NotEmpty(t, kept, c)
		requireSameLaw(t, kept, made, c)
	}
}
