package outputs

import (
	"fmt"
	"math"
)

// drafts counts what self-speculation did.
type drafts struct{ tokens, passes, drafted, accepted int }

func (d *drafts) add(s Sample) {
	if s.Evaluated.Drafted == 0 {
		return
	}
	for i, step := range s.Opening.Steps {
		if step > 0 && !math.IsNaN(s.Opening.LogP[i]) {
			d.tokens++
		}
	}
	d.passes += s.Steps
	d.drafted += s.Evaluated.Drafted
	d.accepted += s.Evaluated.Accepted
}

// report returns a line for people, "" if nothing was drafted.
func (d *drafts) report() string {
	if d.drafted == 0 {
		return ""
	}
	return fmt.Sprintf("self-speculation: %.2f tokens a pass, %d of %d drafted tokens were right",
		float64(d.tokens)/float64(d.passes), d.accepted, d.drafted)
}
