package maskgen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/testkit/parity/loops"
)

func TestLoop(t *testing.T) {
	p := parity.Open(t, "maskgen-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	loops.Run(t, p, m, parity.PromptConditions(nil), loops.Case{Want: "loop_tokens",
		Recipe: "titok(tokens=likeliest) schedule=titok steps=12 guidance=12 guidance-schedule=cosine"})
}
