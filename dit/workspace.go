package dit

import (
	"gorgonia.org/tensor"

	"unmask/nn"
)

// workspace is the memory of a pass.
type workspace struct {
	nn.Work
	hidden *tensor.Dense // [batch*length, hidden]: the result of the latest passes
	head   *tensor.Dense // [rows of one call to the head, hidden]
	mods   *modulations  // for time-conditioned networks
}
