package maskgen_test

import (
	"testing"

	"unmask/guide"
	"unmask/model"
	"unmask/testkit/parity"

	_ "unmask/families/maskgen"
)

func TestParity(t *testing.T) {
	parity.CheckConditional(t, parity.Open, []string{"maskgen-tiny", "maskgen-vq-l"},
		parity.PromptConditions(nil))
}

func TestGuidance(t *testing.T) {
	parity.CheckGuided(t, parity.Open, []string{"maskgen-tiny"}, parity.PromptConditions(nil),
		func(m model.Denoiser) model.Denoiser {
			return guide.New(m, func(model.Progress) float64 { return 2.5 })
		})
}
