package samplers_test

import (
	"encoding/json"
	"io/fs"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
	"unmask/testkit/parity"
)

// The chances of a step give the kappas of the authors' program, at its times.
func TestPsiHasThePublishedKappas(t *testing.T) {
	p := parity.Open(t, "samplers-2026-1")
	data, err := fs.ReadFile(p.Files, "golden.json")
	require.NoError(t, err)
	var golden struct {
		Psi map[string]struct {
			Schedule string
			Steps    int
		} `json:"psi"`
	}
	require.NoError(t, json.Unmarshal(data, &golden))

	// first..last-1 are the indexes of the part in which the rule acts. The last step of the loop's
	// part is one of the program's two wasted ones: nothing happens in it.
	for _, c := range []struct {
		name        string
		rule        samplers.ReMDM
		first, last int
	}{
		{"constant", samplers.ReMDM{Strategy: "psi", Kappa: 0.9, From: 0.2, To: 0.8}, 4, 17},
		{"loop", samplers.ReMDM{Strategy: "constant", Eta: 0.01, From: 0.45, To: 0.95}, 9, 18},
	} {
		for _, noise := range []string{"log-linear", "cosine"} {
			name := c.name + "_" + noise
			require.Equal(t, 20, golden.Psi[name].Steps)
			times, _ := p.Floats("psi_times_" + name)
			kappas, _ := p.Floats("psi_kappas_" + name)
			for n := c.first; n < c.last; n++ {
				require.True(t, c.rule.Acts(n+1, 21), "%s, step %d", name, n+1)
				after := 1 - (1-1e-3)*float64(times[n+1])
				if noise == "cosine" {
					after = 1 - math.Cos(math.Pi/2*after)
				}
				kappa := 1 - c.rule.PsiSigma(after)/(1-after)
				require.InDelta(t, kappas[n], kappa, 1e-6, "%s, step %d", name, n+1)
			}
			require.False(t, c.rule.Acts(c.first, 21), name)
		}
	}
}

// A parameter of another strategy is refused by name.
func TestReMDMRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"remdm(kappa=0.5)":                     "remdm has kappa 0.5, want none with cap",
		"remdm(strategy=psi,eta=0.1)":          "remdm has eta 0.1, want none with psi, which has kappa",
		"remdm(strategy=loop,from=0.1)":        "remdm has from or to, want none with loop",
		"remdm(strategy=psi,from=0.5,to=0.5)":  "remdm has from 0.5, want less than its to, 0.5",
		"remdm(strategy=loop,noise=cosine)":    "remdm has cosine noise, want linear with loop",
		"remdm(strategy=constant,kappa=0.125)": "remdm has kappa 0.125, want none with constant",
	} {
		_, err := samplers.Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}
