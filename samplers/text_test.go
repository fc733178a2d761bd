package samplers_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/param"
	"unmask/samplers"
	"unmask/testkit/refusal"
)

// drawText returns the text of a rule with random parameters and, up to `deep` levels, random rules
// inside.
func drawText(t *rapid.T, info samplers.Info, deep int) string {
	var parts []string
	if info.Inside != "" && rapid.Bool().Draw(t, "inside") {
		n := 1
		if strings.HasPrefix(info.Inside, "two") {
			n = 2
		}
		for range n {
			inner := rapid.SampledFrom(samplers.List()).Draw(t, "rule")
			if deep == 0 {
				parts = append(parts, inner.Name)
			} else {
				parts = append(parts, drawText(t, inner, deep-1))
			}
		}
	}
	for _, p := range info.Params {
		if rapid.Bool().Draw(t, p.Name) {
			parts = append(parts, p.Name+"="+drawValue(t, p))
		}
	}
	if len(parts) == 0 {
		return info.Name
	}
	return info.Name + "(" + strings.Join(parts, ", ") + ")"
}

func drawValue(t *rapid.T, p param.Param) string {
	switch {
	case len(p.Words) > 0:
		return rapid.SampledFrom(p.Words).Draw(t, "word")
	case p.Default != "" && rapid.Bool().Draw(t, "default"):
		return p.Default
	case p.Kind == param.Whole:
		return fmt.Sprint(rapid.IntRange(int(p.Min), int(p.Max)).Draw(t, "whole"))
	}
	return fmt.Sprint(rapid.Float64Range(p.Min, p.Max).Draw(t, "number"))
}

// Parse reads back the text of every sampler, nested two deep, with random parameters.
func TestTextIsReadBack(t *testing.T) {
	read := map[string]int{}
	for _, info := range samplers.List() {
		rapid.Check(t, func(t *rapid.T) {
			s, err := samplers.Parse(drawText(t, info, 2))
			if err != nil { // a sampler in place of an order, a parameter without effect, and so on
				require.NotContains(t, err.Error(), "\n")
				t.Skip(err)
			}
			read[info.Name]++
			text := samplers.Text(s)
			again, err := samplers.Parse(text)
			require.NoError(t, err, text)
			require.Equal(t, s, again, text)
			require.True(t, samplers.Equal(s, again))
		})
	}
	for _, info := range samplers.List() {
		require.Greater(t, read[info.Name], 10, info.Name)
	}
}

// Spellings of the same sampler are equal; spellings of different ones are not.
func TestTextIsTheMeaning(t *testing.T) {
	for text, spellings := range map[string][]string{
		"hybrid": {"hybrid()", " hybrid ( alpha = 6 )",
			"hybrid(halton,u-moment)", "hybrid(halton(),u-moment(alpha=6.0),gamma=1)",
			"hybrid(halton,moment)"},
		"moment": {"moment(alpha=6)"},
		"hybrid(halton,u-moment(alpha=3))": {"hybrid(alpha=3)", "hybrid(alpha=3,halton,u-moment)",
			"hybrid(halton,u-moment,alpha=3)"},
		"semi-ar": {"semi-ar(confidence)",
			"semi-ar(block=32,confidence(temperature=0))"},
		"semi-ar(hybrid,block=8)":  {"semi-ar(block=8, hybrid)"},
		"eb(margin)":               {"eb(margin,budget=0.1)"},
		"vanilla":                  {"vanilla(bits=64)"},
		"remdm(strategy=loop)":     {"remdm(strategy=loop)"},
		"u-moment(gamma=2)":        {"u-moment(gamma=2.0)"},
		"semi-ar(halton(gamma=2))": {"semi-ar(gamma=2,halton)"},
	} {
		for _, spelling := range append(spellings, text) {
			s, err := samplers.Parse(spelling)
			require.NoError(t, err, spelling)
			require.Equal(t, text, samplers.Text(s), spelling)
		}
	}
	require.Equal(t, "maskgit", samplers.Text(samplers.MaskGIT{Alpha: 6}))
	require.True(t, samplers.Equal(samplers.MaskGIT{Alpha: 6}, samplers.MaskGIT{}))
	require.False(t, samplers.Equal(samplers.MaskGIT{Alpha: 7}, samplers.MaskGIT{}))
	require.Equal(t, "samplers_test.fixed", samplers.Text(samplers.ChooseThenSample{Order: fixed{1}}))
	require.False(t, samplers.Equal(fixed{1}, fixed{2}))
}

// Gap is a rule of another module: it opens positions that are far from each other.
type Gap struct {
	Width int            `param:"width 1..64 =2" help:"positions"`
	Noise float64        `param:"noise 0.5..2 =1" help:"scale"`
	Among samplers.Order `inside:"random"`
}

func (g Gap) Needs(step, steps int) samplers.Need { return samplers.Need{} }
func (g Gap) Rank(v *samplers.View, k int) []int {
	return v.Top(k, func(i int) float64 {
		return float64(v.Masked[i]%max(2, g.Width)) + v.Rand.Uniform(v.Masked[i], samplers.ForRule)
	})
}

func init() {
	samplers.Register(samplers.Rule{Prototype: Gap{}, Name: "gap", Line: "positions far apart",
		Paper: "a test"})
}

func TestRegisteredRuleIsParsed(t *testing.T) {
	s, err := samplers.Parse("semi-ar(hybrid(gap(width=5,margin),gap),block=4)")
	require.NoError(t, err)
	require.Equal(t, samplers.SemiAR{Block: 4,
		Inside: samplers.ChooseThenSample{Order: samplers.Hybrid{
			Explore: Gap{Width: 5, Among: samplers.Margin{}}, Exploit: Gap{}}}}, s)
	require.Equal(t, "semi-ar(hybrid(gap(margin,width=5),gap),block=4)", samplers.Text(s))
	_, err = samplers.Parse("gap(width=65)")
	refusal.RequireText(t, err, `"gap(width=65)": gap: width is 65`)
	refusal.RequireText(t, samplers.Check(samplers.ChooseThenSample{Order: Gap{Noise: 3}}),
		"gap: noise is 3")
	_, err = samplers.Parse("gpa")
	refusal.RequireText(t, err, `unknown sampler "gpa" (did you mean gap?)`)
	require.Panics(t, func() { samplers.Register(samplers.Rule{Prototype: Gap{}, Name: "gap2"}) })
	require.Panics(t, func() { samplers.Register(samplers.Rule{Prototype: 1, Name: "number"}) })
}

// A long text gives a short error.
func TestLongTextsAreNotEchoed(t *testing.T) {
	for _, n := range []int{1000, 100_000} {
		long := strings.Repeat("x", n)
		for _, text := range []string{long, "halton(" + long, "halton)" + long, "moment(alpha=" + long,
			"moment(" + long + "=1)", "moment(alpha=" + strings.Repeat("1", n),
			"random(" + long + ")", "moment(alpha=1 " + long, strings.Repeat("hybrid(", n/7),
			"hybrid(" + strings.Repeat("a=1,", n/4) + "a=1)"} {
			_, err := samplers.Parse(text)
			require.Error(t, err)
			require.Less(t, len(err.Error()), 800, text[:20])
		}
		_, err := samplers.ParseSchedule(long)
		require.Less(t, len(err.Error()), 300)
	}
}

// The exponent of a draw is finite at every alpha, with the most steps that a run can have.
func TestBetaIsFinite(t *testing.T) {
	for _, text := range []string{"moment(alpha=1e-308)", "u-moment(alpha=0)", "temp(alpha=Inf)"} {
		_, err := samplers.Parse(text)
		require.ErrorContains(t, err, "want 0.001 to 1000000")
	}
	refusal.Require(t, samplers.Check(samplers.Moment{Alpha: 1e-308}),
		"alpha", "1e-308")
	require.False(t, math.IsInf(samplers.Beta(0.001, 1<<20-1, 1<<20), 0))
}

func TestTakes(t *testing.T) {
	require.True(t, samplers.UsesParam("hybrid", "alpha"))
	require.True(t, samplers.UsesParam("eb(u-moment)", "alpha"))
	require.False(t, samplers.UsesParam("eb", "alpha"))
	require.False(t, samplers.UsesParam("moment(alpha=3)", "alpha"))
	require.True(t, samplers.UsesParam("hybrid(u-moment(alpha=3),temp)", "gamma"))
	require.False(t, samplers.UsesParam("moment", "gamma"))
}

func TestSchedulesAreReadBack(t *testing.T) {
	for _, s := range samplers.Schedules() {
		again, err := samplers.ParseSchedule(s.String())
		require.NoError(t, err)
		require.Equal(t, s, again)
	}
	rapid.Check(t, func(t *rapid.T) {
		list := []float64{0}
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			list = append(list, list[len(list)-1]+(1-list[len(list)-1])*rapid.Float64Range(1e-6, 0.9).Draw(t,
				"t"))
		}
		for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
			list[i], list[j] = list[j], list[i]
		}
		s, err := samplers.TimesSchedule(list)
		if err != nil {
			t.Skip(err)
		}
		again, err := samplers.ParseSchedule(s.String())
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
	for text, want := range map[string]string{
		"cosin":          `unknown schedule "cosin" (did you mean cosine?), want one of amused, arccos, cosine, dllm, dream, floor, late-arccos, linear, llada, mage, omnivoice, pgm, pgm-arccos, rest, titok, uniform`,
		"times()":        `time 1 of the schedule is "", want a number`,
		"times(0.5)":     "the last of 1 times is 0.5, want 0",
		"times(2,0)":     "time 1 of the schedule is 2, want 0 to less than 1",
		"times(0.5,x,0)": `time 2 of the schedule is "x", want a number`,
		"times(0.5,0":    `unknown schedule "times(0.5,0"`,
	} {
		_, err := samplers.ParseSchedule(text)
		require.ErrorContains(t, err, want)
	}
}
