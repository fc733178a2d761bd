package demo_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/generate"
)

var (
	hoursModel = flag.String("hours-model", "", "a folder; by default the embedded image model")
	hoursCount = flag.Int("hours", 1, "pictures of each hour in TestDemoHours")
)

// Pictures of an hour have its colours, with guidance 1 and 2: 99 of 100 over all hours, and 98 of
// each (-hours 100).
func TestDemoHours(t *testing.T) {
	m := weighed(t, *hoursModel, demo.Image())
	colours, made, good := newPalette(200, 1), 0, 0
	for i, hour := range m.Classes {
		guidances := []string{"1", "2"}
		if *hoursCount == 1 { // in turn
			guidances = guidances[i%2:][:1]
		}
		for _, guidance := range guidances {
			requests := make([]generate.Request, *hoursCount)
			for i := range requests {
				var err error
				requests[i], err = m.Prepare(t.Context(), unmask.Request{Class: hour, Seed: 1,
					Index: uint32(i), Overrides: generate.Overrides{"guidance": guidance}})
				require.NoError(t, err)
			}
			right := 0
			for step, err := range generate.Each(t.Context(), m.Denoiser,
				generate.PoolOptions{Size: 8, Guided: true}, slices.Values(requests)) {
				require.NoError(t, err)
				for _, p := range step.Sequences {
					if !p.Done {
						continue
					}
					picture, err := m.Pictures.Image(p.Tokens)
					require.NoError(t, err)
					if n := colours.strange(hour, picture); n <= 60 {
						right++
					} else {
						t.Logf("%s %d, guidance %s: %d strange pixels", hour, p.Number, guidance, n)
					}
				}
			}
			t.Logf("%s, guidance %s: %d of %d right", hour, guidance, right, len(requests))
			assert.GreaterOrEqual(t, right, len(requests)*98/100)
			made, good = made+len(requests), good+right
		}
	}
	assert.GreaterOrEqual(t, good, made*99/100)
}
