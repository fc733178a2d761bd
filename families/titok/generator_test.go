package titok_test

import (
	"testing"

	"unmask/guide"
	"unmask/model"
	"unmask/testkit/parity"
)

func TestGeneratorParity(t *testing.T) {
	parity.CheckConditional(t, parity.Open,
		[]string{"titok-bert-tiny", "titok-uvit-tiny", "titok-l32", "titok-s128"}, parity.LabelConditions)
}

func TestGuidance(t *testing.T) {
	parity.CheckGuided(t, parity.Open, []string{"titok-bert-tiny", "titok-uvit-tiny"},
		parity.LabelConditions,
		func(m model.Denoiser) model.Denoiser {
			return guide.New(m, func(model.Progress) float64 { return 2.5 })
		})
}
