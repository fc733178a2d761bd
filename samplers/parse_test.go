package samplers_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/param"
	"unmask/samplers"
	"unmask/testkit/refusal"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]samplers.Sampler{
		"random":             samplers.ChooseThenSample{Order: samplers.Random{}, Gamma: 2},
		" moment ( alpha=3)": samplers.Moment{Alpha: 3},
		"u-moment()":         samplers.ChooseThenSample{Order: samplers.UMoment{Alpha: 9}, Gamma: 2},
		"vanilla(bits=32)":   samplers.Vanilla{Bits: 32},
		"hybrid(gamma=1,random, u-moment(alpha=4))": samplers.ChooseThenSample{
			Order: samplers.Hybrid{Explore: samplers.Random{}, Exploit: samplers.UMoment{Alpha: 4}}},
	} {
		got, err := samplers.Parse(text, samplers.WithParam("alpha", 9), samplers.WithParam("gamma", 2))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                                   `unknown sampler "", want one of`,
		"best":                               `unknown sampler "best", want one of`,
		"random(alpha=3)":                    `random has no parameter "alpha", want gamma`,
		"moment(alpha=x)":                    `moment: alpha is "x", want a number, 0.001 to 1000000`,
		"moment(alpha=NaN)":                  "moment: alpha is NaN, want 0.001 to 1000000",
		"moment(alpha=-1)":                   "moment: alpha is -1, want 0.001 to 1000000",
		"vanilla(bits=3.5)":                  `vanilla: bits is "3.5", want 32 or 64`,
		"vanilla(bits=16)":                   "vanilla: bits is 16, want 32 or 64",
		"random(halton)":                     "random takes no sampler inside",
		"hybrid(halton)":                     "hybrid takes two orders or none, found 1",
		"hybrid(maskgit, temp":               "want a comma or )",
		"hybrid(maskgit,temp)":               "maskgit is a sampler that is more than an order",
		"semi-ar(":                           "no ) after semi-ar(, want one",
		"hybrid(halton, ":                    "no ) after hybrid(, want one",
		"moment( ":                           "no ) after moment(, want one",
		"random)":                            `found ")" after the end`,
		"hybrid(u-moment(alpha=2),u-moment)": "two moment orders with different alpha",
		"greedy(dplm)":                       "greedy around a sampler that draws tokens itself",
		strings.Repeat("hybrid(", 20):        "nested deeper than 8",
	} {
		_, err := samplers.Parse(text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "\n")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"random", "hybrid(halton,u-moment(alpha=3))", "moment(alpha=", "((((",
		"hybrid(hybrid(hybrid(", "vanilla(bits=32,)", "halton(=)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := samplers.Parse(text)
		if err == nil {
			require.NoError(t, samplers.Check(s))
			s.Needs(1, 2)
		}
	})
}

// Every parameter has a description, an error with its name for a value out of range, and a default
// that changes nothing.
func TestEverySamplerIsDescribedAndBuilt(t *testing.T) {
	for _, info := range samplers.List() {
		require.NotEmpty(t, info.Line, "Line of the rule %s", info.Name)
		require.NotEmpty(t, info.Paper, "Paper of the rule %s", info.Name)
		plain, err := samplers.Parse(info.Name)
		require.NoError(t, err)
		require.Equal(t, info.Name, samplers.Text(plain))
		for _, p := range info.Params {
			require.NotEmpty(t, p.Help, "%s %s", info.Name, p.Name)
			with := func(value string) (samplers.Sampler, error) {
				return samplers.Parse(info.Name + "(" + p.Name + "=" + value + ")")
			}
			_, err = with("x")
			refusal.Require(t, err, p.Name, `"x"`)
			if p.Kind != param.Word && len(p.Words) == 0 {
				_, err = with(param.Format(2 * p.Max))
				refused := refusal.Require(t, err, p.Name, param.Format(2*p.Max))
				require.Equal(t, p.Want(), refused.Want)
			}
			if p.Default != "" {
				s, err := with(p.Default)
				require.NoError(t, err)
				require.Equal(t, plain, s, "%s %s", info.Name, p.Name)
			}
		}
	}
}

// Spaced goes around rules of their own pace that go by positions alone; each other is refused.
func TestWhatSpacedGoesAround(t *testing.T) {
	taken := []string{}
	for _, info := range samplers.List() {
		if _, err := samplers.Parse("spaced(" + info.Name + ")"); err == nil {
			taken = append(taken, info.Name)
		}
	}
	require.Equal(t, []string{"eb", "threshold", "factor", "entropy-threshold", "multi-block",
		"frechet", "credit", "spaced", "draft", "wedlm", "dreamon"}, taken)
}
