package titok_test

import (
	"testing"

	"unmask/internal/parity"
)

func TestGeneratorParity(t *testing.T) {
	parity.Conditional(t, parity.Open, []string{"titok-bert-tiny", "titok-uvit-tiny", "titok-l32", "titok-s128"}, parity.Labels)
}
