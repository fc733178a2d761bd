package titok_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/testkit/parity/loops"
)

func TestLoops(t *testing.T) {
	for _, c := range []struct {
		pack string
		loops.Case
	}{
		{"titok-bert-tiny", loops.Case{Want: "loop_tokens",
			Recipe: "titok(tokens=likeliest) schedule=titok steps=8 guidance=4.5 guidance-schedule=linear"}},
		{"titok-uvit-tiny", loops.Case{Want: "loop_tokens",
			Recipe: "titok(tokens=likeliest) schedule=titok steps=12 guidance=6.9 " +
				"guidance-schedule=power-cosine"}},
	} {
		t.Run(c.pack, func(t *testing.T) {
			p := parity.Open(t, c.pack)
			m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
			require.NoError(t, err)
			loops.Run(t, p, m, parity.LabelConditions, c.Case)
		})
	}
}

// Constant guidance, which the authors' program supports but no published file uses.
// testdata/constant.py makes the run.
func TestConstantGuidance(t *testing.T) {
	data, err := os.ReadFile("testdata/constant.json")
	require.NoError(t, err)
	var want [][]int32
	require.NoError(t, json.Unmarshal(data, &want))
	p := parity.Open(t, "titok-bert-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	loops.Tokens(t, p, m, parity.LabelConditions, slices.Concat(want...), len(want),
		"titok(tokens=likeliest) schedule=titok steps=8 guidance=3 guidance-schedule=constant")
}
