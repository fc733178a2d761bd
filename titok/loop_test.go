package titok_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/internal/parity"
	"unmask/internal/parity/loops"
	"unmask/model"
)

func TestLoops(t *testing.T) {
	for _, c := range []struct {
		pack string
		loops.Case
	}{
		{"titok-bert-tiny", loops.Case{Recipe: "titok(tokens=likeliest) schedule=titok steps=8", Want: "loop_tokens",
			Scale: func(step, steps int) float64 { return 4.5 * float64(step-1) / float64(steps) }}},
		{"titok-uvit-tiny", loops.Case{Recipe: "titok(tokens=likeliest) schedule=titok steps=12", Want: "loop_tokens",
			Scale: func(step, steps int) float64 { // u + g*(c-u)
				return 5.9 * (1 - math.Cos(math.Pi*math.Pow(float64(step-1)/float64(steps), 3))) / 2
			}}},
	} {
		t.Run(c.pack, func(t *testing.T) {
			p := parity.Open(t, c.pack)
			m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
			require.NoError(t, err)
			loops.Run(t, p, m, parity.Labels, c.Case)
		})
	}
}
