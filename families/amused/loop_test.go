package amused_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/testkit/parity/loops"
)

func TestLoops(t *testing.T) {
	for _, pack := range []string{"amused-256-tiny", "amused-512-tiny"} {
		p := open(t, pack)
		m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
		require.NoError(t, err)
		t.Run(pack, func(t *testing.T) {
			loops.Run(t, p, m, parity.PromptConditions(micro),
				loops.Case{Recipe: "amused(tokens=likeliest) schedule=amused steps=8 guidance=2",
					Want: "loop_tokens"}) // u + 3(c-u)
		})
		t.Run(pack+"/inpaint", func(t *testing.T) {
			loops.Run(t, p, m, parity.PromptConditions(micro),
				loops.Case{Recipe: "amused(tokens=likeliest) schedule=linear steps=8 guidance=2",
					Start: "inpaint_start", Want: "inpaint_loop_tokens"})
		})
	}
}
