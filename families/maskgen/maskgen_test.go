package maskgen_test

import (
	"testing"

	"unmask/guide"
	"unmask/model"
	"unmask/testkit/parity"

	_ "unmask/families/maskgen"
)

func TestParity(t *testing.T) {
	parity.Conditional(t, parity.Open, []string{"maskgen-tiny", "maskgen-vq-l"}, parity.Prompts(nil))
}

func TestGuidance(t *testing.T) {
	parity.Guided(t, parity.Open, []string{"maskgen-tiny"}, parity.Prompts(nil),
		func(m model.Denoiser) model.Denoiser {
			return guide.New(m, func(model.Progress) float64 { return 2.5 })
		})
}
