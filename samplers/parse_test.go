package samplers_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]samplers.Sampler{
		"random":             samplers.ChooseThenSample{Order: samplers.Random{}, Gamma: 2},
		" moment ( alpha=3)": samplers.ChooseThenSample{Order: samplers.Moment{Alpha: 3}, Alpha: 3},
		"u-moment()":         samplers.ChooseThenSample{Order: samplers.Moment{Alpha: 9}, Gamma: 2},
		"vanilla(bits=32)":   samplers.Vanilla{Bits: 32},
		"hybrid(gamma=1,random, u-moment(alpha=4))": samplers.ChooseThenSample{
			Order: samplers.Hybrid{Explore: samplers.Random{}, Exploit: samplers.Moment{Alpha: 4}}, Gamma: 1},
	} {
		got, err := samplers.Parse(text, samplers.Options{Alpha: 9, Gamma: 2})
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                                   `unknown sampler "", want one of`,
		"best":                               `unknown sampler "best", want one of`,
		"random(alpha=3)":                    `random has no parameter "alpha", want one of [gamma]`,
		"moment(alpha=x)":                    "moment: alpha=x, want a number",
		"moment(alpha=NaN)":                  "moment: alpha=NaN, want a number",
		"moment(alpha=-1)":                   "alpha is -1, want more than 0",
		"vanilla(bits=3.5)":                  "vanilla: bits=3.5, want a whole number",
		"vanilla(bits=16)":                   "vanilla with 16 bits, want 32 or 64",
		"random(halton)":                     "random takes no sampler inside",
		"hybrid(halton)":                     "hybrid takes two orders or none, found 1",
		"hybrid(maskgit, temp":               "want a comma or )",
		"hybrid(maskgit,temp)":               "hybrid takes an order",
		"random)":                            `found ")" after the end`,
		"hybrid(u-moment(alpha=2),u-moment)": "two moment orders with different alpha",
		strings.Repeat("hybrid(", 20):        "nested deeper than 8",
	} {
		_, err := samplers.Parse(text, samplers.Options{})
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "\n")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"random", "hybrid(halton,u-moment(alpha=3))", "moment(alpha=", "((((", "hybrid(hybrid(hybrid(", "vanilla(bits=32,)", "halton(=)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := samplers.Parse(text, samplers.Options{})
		if err == nil {
			require.NoError(t, samplers.Check(s))
			s.Needs(1, 2)
		}
	})
}

func TestEverySamplerIsDescribedAndBuilt(t *testing.T) {
	for _, info := range samplers.List() {
		require.NotEmpty(t, info.Line)
		require.NotEmpty(t, info.Paper)
		_, err := samplers.Parse(info.Name, samplers.Options{})
		require.NoError(t, err)
		for _, key := range info.Params {
			_, err = samplers.Parse(info.Name+"("+key+"=x)", samplers.Options{})
			require.ErrorContains(t, err, "want ", "%s %s", info.Name, key)
		}
	}
}
