package vit_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
	"unmask/testkit/parity"
	_ "unmask/vit"
)

var packs = []string{"mage-tiny", "mage-base"}

// bf16 changes this pack's results by 6 % of the largest: with 64 channels errors average out
// little.
const bf16Tolerance = 8e-2

func within(tolerance float64) float64 {
	if tolerance > 1e-3 {
		return bf16Tolerance
	}
	return tolerance
}

func TestFullPass(t *testing.T) {
	parity.RunEach(t, packs, func(t *testing.T, p *parity.Pack, m model.Refiner, tolerance float64) {
		parity.CheckFullPass(t, p, m, "", within(tolerance))
	})
}

func TestPartialPass(t *testing.T) {
	parity.RunEach(t, packs, func(t *testing.T, p *parity.Pack, m model.Refiner, tolerance float64) {
		parity.CheckPartialPass(t, p, m, within(tolerance))
	})
}

func TestBatchInvariance(t *testing.T) {
	parity.CheckBatchInvariance(t, "mage-tiny", []int{50, 3, 40})
}

func TestAnyBatchAndThreads(t *testing.T) {
	parity.CheckThreads(t, "mage-tiny", []int{50, 3, 40})
}

func TestBadConfigs(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"depth": 3`, `"depth": 0`, "depth is 0, want 1 to 1048576"},
		{`"depth": 3`, `"depth": 1000000`, "depth 1000000 and decoder_depth 2, but there are"},
		{`"embed_dim": 64`, `"embed_dim": -64`, "embed_dim is -64"},
		{`"embed_dim": 64`, `"embed_dim": 2147483648`, "embed_dim is 2147483648"},
		{`"num_heads": 2`, `"num_heads": 5`, "num_heads is 5, want the divisors of the width 64"},
		{`"grid": 8`, `"grid": 16`, "config.json wants [257 64]"},
		{`"codebook_size": 64`, `"codebook_size": 65`, "config.json wants [1066 64]"},
		{`"grid": 8`, `"grid": 8.5`, "config.json: "},
	} {
		p := parity.Open(t, "mage-tiny")
		require.Contains(t, string(p.Config), c.from)
		p.Config = []byte(strings.Replace(string(p.Config), c.from, c.to, 1))
		_, err := model.Load(p.Source, model.Options{Backend: plain.New()})
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestRowsThatNobodyReads(t *testing.T) {
	parity.CheckReadRows(t, "mage-tiny", []int{50, 3,
		40})
}

// MAGE has the runs of its authors' program by name; a model with names of classes is not theirs.
func TestPresets(t *testing.T) {
	for names, want := range map[string]int{"": 2, `"class_names": ["dawn", "dusk"], `: 0} {
		p := parity.Open(t, "mage-tiny")
		p.Config = []byte(strings.Replace(string(p.Config), "{", "{"+names, 1))
		l, err := model.Load(p.Source, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		require.Len(t, l.Presets, want)
		require.Empty(t, l.Recipe)
		if want > 0 {
			require.Equal(t, "maskgit(alpha=6) schedule=mage steps=20", l.Presets["fid"])
			require.Equal(t, "maskgit(alpha=4.5) schedule=mage steps=12", l.Presets["program"])
		}
	}
}
