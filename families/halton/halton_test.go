package halton_test

import (
	"testing"

	"unmask/guide"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights/pytorch"

	_ "unmask/families/halton"
)

func open(t testing.TB, name string) *parity.Pack {
	switch name {
	case "halton-tiny":
		return parity.OpenConverted(t, name, "ImageNet_256_tiny.pth", pytorch.Options{Heads: 5})
	case "halton-256-base":
		return parity.OpenConverted(t, name, "ImageNet_256_base.pth", pytorch.Options{})
	}
	return parity.OpenConverted(t, name, "ImageNet_384_small.pth", pytorch.Options{})
}

func TestParity(t *testing.T) {
	parity.CheckConditional(t, open, []string{"halton-tiny", "halton-256-base", "halton-384-small"},
		parity.LabelConditions)
}

func TestGuidance(t *testing.T) {
	parity.CheckGuided(t, open, []string{"halton-tiny"}, parity.LabelConditions,
		func(m model.Denoiser) model.Denoiser {
			return guide.New(m, func(model.Progress) float64 { return 1.5 })
		})
}
