package dit

import (
	"gorgonia.org/tensor"

	"unmask/nn"
)

// workspace is the memory of a pass.
type workspace struct {
	nn.Work
	hidden *tensor.Dense // [batch*length, hidden]: what the last passes left
	head   *tensor.Dense // [rows of one call to the head, hidden]
	mods   *modulations  // of time-conditioned networks
}
