package halton_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/model"
	"unmask/samplers"
	"unmask/testkit/parity"
	"unmask/testkit/parity/loops"
)

func TestLoops(t *testing.T) {
	p := open(t, "halton-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	loops.Run(t, p, m, parity.LabelConditions, loops.Case{Want: "halton_loop_tokens",
		Recipe: "halton-maskgit(roll=off) schedule=arccos steps=12 top-k=1 guidance=2"})
	loops.Run(t, p, m, parity.LabelConditions, loops.Case{Want: "confidence_loop_tokens",
		Recipe: "maskgit-redraw(tokens=likeliest) schedule=late-arccos steps=8 guidance=3 " +
			"guidance-schedule=ramp"})
}

// The order, and the number of cells open after each step, equal the authors'.
func TestOrderAndCounts(t *testing.T) {
	p := open(t, "halton-tiny")
	order, _ := p.Ints("halton_order")
	for i, at := range samplers.HaltonOrder(8, 8) {
		require.Equal(t, order[2*i]*8+order[2*i+1], at, "cell %d", i)
	}
	for _, c := range []struct {
		name     string
		schedule samplers.Schedule
		cells    int
	}{
		{"halton_counts_32_of_576", samplers.Arccos, 576},
		{"halton_counts_32_of_256", samplers.Arccos, 256},
		{"confidence_counts_12_of_256", samplers.LateArccos, 256},
	} {
		want, _ := p.Ints(c.name)
		for i, n := range want {
			require.Equal(t, int(n), samplers.OpenCount(c.schedule, float64(i+1), len(want), c.cells),
				"%s, step %d", c.name, i+1)
		}
	}
}
