package maskgen_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/internal/parity"
	"unmask/internal/parity/loops"
	"unmask/model"
)

func TestLoop(t *testing.T) {
	p := parity.Open(t, "maskgen-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	loops.Run(t, p, m, parity.Prompts(nil), loops.Case{Recipe: "titok(tokens=likeliest) schedule=titok steps=12", Want: "loop_tokens",
		Scale: func(step, steps int) float64 { return 11*(1-math.Cos(math.Pi*float64(step)/float64(steps)))/2 + 1 }})
}
