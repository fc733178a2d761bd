package maskgen_test

import (
	"testing"

	"unmask/internal/parity"

	_ "unmask/maskgen"
)

func TestParity(t *testing.T) {
	parity.Conditional(t, parity.Open, []string{"maskgen-tiny", "maskgen-vq-l"}, parity.Prompts(nil))
}
