package lint

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// measured is a file of bench/results: what one command measured on one machine, before and after a
// change.
type measured struct {
	Machine, Date, Command string
	Ceilings               map[string]float64
	Runs                   []struct {
		Commit  string
		Forward map[string]struct{ NS, TOPS float64 } // of a pass, by network, precision and batch
	}
}

// Figures of documents are those of the files that a measurement left.
func TestFiguresOfCUDA(t *testing.T) {
	data, err := os.ReadFile("bench/results/h100.json")
	require.NoError(t, err)
	var m measured
	require.NoError(t, json.Unmarshal(data, &m))
	page, err := os.ReadFile("docs/cuda.md")
	require.NoError(t, err)
	before, after := m.Runs[0].Forward, m.Runs[1].Forward
	for row, name := range map[string]string{
		"| SDTT small, 1024 positions | 16 |": "lm12/bf16/batch16",
		"| | 1 |":                             "lm12/bf16/batch1",
		"| MAGE-B, 257 positions | 64 |":      "vit20/bf16/batch64",
	} {
		t.Run(name, func(t *testing.T) {
			now := after[name]
			want := fmt.Sprintf("%s %.3g ms | %.3g ms | %.0f | %.2f |", row, before[name].NS/1e6, now.NS/1e6,
				now.TOPS, now.TOPS/m.Ceilings["bf16_tflops"])
			require.True(t, strings.Contains(string(page), "\n"+want+"\n"), "docs/cuda.md, want %s", want)
		})
	}
}
