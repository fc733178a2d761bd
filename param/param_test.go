package param_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/param"
)

func TestRefusals(t *testing.T) {
	steps := param.Param{Name: "steps", Kind: param.Whole, Min: 1, Max: 4096}
	topK := param.Param{Name: "top-k", Kind: param.Whole, Min: 1, Max: 9, Zero: "all"}
	bits := param.Param{Name: "bits", Kind: param.Whole, Words: []string{"32", "64"}}
	heat := param.Param{Name: "heat", Min: 0.001, Max: 1e6}
	strategy := param.Param{Name: "strategy", Kind: param.Word, Words: []string{"cap", "conf", "loop"}}
	for want, err := range map[string]error{
		"steps is 0, want 1 to 4096":                                      second(steps.Int("0")),
		"steps is 4097, want 1 to 4096":                                   steps.CheckInt(4097),
		`steps is "3.5", want a whole number, 1 to 4096`:                  second(steps.Int("3.5")),
		`steps is "99999999999999999999", want a whole number, 1 to 4096`: second(steps.Int("99999999999999999999")),
		"top-k is -1, want 1 to 9, or 0 for all":                          second(topK.Int("-1")),
		"bits is 33, want 32 or 64":                                       second(bits.Int("33")),
		"heat is NaN, want 0.001 to 1000000":                              second(heat.Float("nan")),
		"heat is +Inf, want 0.001 to 1000000":                             second(heat.Float("1e999")),
		"heat is 1e-09, want 0.001 to 1000000":                            heat.Check(1e-9),
		`heat is "warm", want a number, 0.001 to 1000000`:                 second(heat.Float("warm")),
		`strategy is "lop", want cap, conf or loop`:                       second(strategy.Word("lop")),
		`strategy is "up", want cap, conf or loop`:                        strategy.CheckWord("up"),
	} {
		require.EqualError(t, err, want)
	}
	n, err := topK.Int("0")
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, heat.Check(0), "the default")
	require.NoError(t, strategy.CheckWord(""))
}

func second[T any](_ T, err error) error { return err }

// A number that is written and read back is the same, and is refused or accepted as before.
func TestNumbersAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := param.Param{Name: "x", Min: -1e300, Max: 1e300}
		x := rapid.Float64Range(-1e300, 1e300).Draw(t, "x")
		again, err := p.Float(param.Format(x))
		require.NoError(t, err)
		require.Equal(t, x, again)
	})
}

func TestLongTextsAreCut(t *testing.T) {
	require.Equal(t, `"ab"`, param.Quote("ab"))
	require.Equal(t, `"`+strings.Repeat("é", 30)+`"... (200000 bytes)`,
		param.Quote(strings.Repeat("é", 100_000)))
	_, err := param.Param{Name: "x", Max: 1}.Float(strings.Repeat("9", 100_000))
	require.Less(t, len(err.Error()), 200)
}

func TestNearest(t *testing.T) {
	names := []string{"confidence", "eb", "entropy", "halton", "hybrid", "margin", "moment", "random",
		"u-moment"}
	for name, want := range map[string][]string{
		"momnet": {"moment"}, "hybird": {"hybrid"}, "umoment": {"moment",
			"u-moment"}, "conf": {"confidence"},
		"zzz": nil, "": nil, "e": nil, strings.Repeat("x", 100): nil, "ebb": {"eb"},
	} {
		require.Equal(t, want, param.Nearest(name, names), name)
	}
	require.EqualError(t, param.Unknown("sampler", "momnt", []string{"moment", "eb"}),
		`unknown sampler "momnt" (did you mean moment?), want one of eb, moment`)
}

// The name of a parameter stands once in front of an error, and no package's stands after it.
func TestAboutNamesOnce(t *testing.T) {
	for name, c := range map[string][3]string{
		"package":  {"sampler", "samplers: unknown sampler", "sampler: unknown sampler"},
		"other":    {"reuse", "generate: unknown reuse", "reuse: unknown reuse"},
		"own name": {"voice", "voice: a damaged file", "voice: a damaged file"},
		"neither":  {"steps", "no number", "steps: no number"},
	} {
		t.Run(name, func(t *testing.T) {
			cause := errors.New(c[1])
			err := param.WithName(c[0], cause)
			require.EqualError(t, err, c[2])
			require.ErrorIs(t, err, cause)
		})
	}
}
