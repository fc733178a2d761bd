package generate_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/samplers"
)

var update = flag.Bool("update", false, "rewrite the golden outputs")

// The output of a seed is frozen for every sampler: a change here changes everybody's samples.
func TestGoldenOutputs(t *testing.T) {
	m := exactModel(t, "ising:height=3,width=8,coupling=0.3,field=0.1")
	text := exactModel(t, "hmm:length=24,tokens=9,hidden=3")
	var b strings.Builder
	for _, info := range samplers.List() {
		for _, model := range []*exact.Model{m, text} {
			o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
				info.Name), Steps: 6}, Seed: 11}, N: 2}
			for i, tokens := range collect(t, exact.NewDenoiser(model), o) {
				fmt.Fprintf(&b, "%s %d: %s\n", info.Name, i,
					strings.Trim(strings.ReplaceAll(fmt.Sprint(tokens), " ", ""), "[]"))
			}
		}
	}
	const file = "testdata/golden.txt"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(),
		"if the change is meant, such as a new sampler: go test ./generate -run Golden -update")
}
