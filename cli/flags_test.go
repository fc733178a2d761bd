package cli

import (
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Flags and library refuse the same values with the same errors, except 0, which means the default
// in the library.
func TestFlagsRefuseAsTheLibrary(t *testing.T) {
	d := exact.NewDenoiser(exact.Markov(16, 4, 0.5, 2, 1))
	fields := map[string]func(o *generate.Options, x float64){
		"steps": func(o *generate.Options, x float64) { o.Steps = int(x) },
		"cache": func(o *generate.Options, x float64) { o.Cache = int(x) },
		"refresh": func(o *generate.Options, x float64) {
			o.Refresh, o.Reuse = int(x),
				generate.Delayed
		},
		"temperature": func(o *generate.Options, x float64) { o.Filter.Temperature = x },
		"top-p":       func(o *generate.Options, x float64) { o.Filter.TopP = x },
		"top-k":       func(o *generate.Options, x float64) { o.Filter.TopK = int(x) },
		"alpha":       func(o *generate.Options, x float64) { o.Sampler = samplers.Moment{Alpha: x} },
		"gamma": func(o *generate.Options, x float64) {
			o.Sampler = samplers.ChooseThenSample{Order: samplers.Random{}, Gamma: x}
		},
	}
	tried := 0
	for _, p := range append(generate.Params(), samplers.AlphaParam, samplers.GammaParam) {
		set := fields[p.Name]
		if set == nil { // a text or a word, or without effect alone
			continue
		}
		tried++
		rapid.Check(t, func(t *rapid.T) {
			x := rapid.OneOf(rapid.SampledFrom([]float64{-1, 1e-9, 1e-12, 1, 17, 65, 1 << 30, 1<<30 + 1,
				1e12}),
				rapid.Float64Range(-10, 1e7)).Draw(t, "x")
			if p.Kind == param.Whole {
				x = math.Trunc(x)
			} else if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
				x = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), 1e-308}).Draw(t, "not finite")
			}
			if x == 0 { // the default in the library
				return
			}
			var o generate.Options
			set(&o, x)
			_, err := o.Check(d)
			library := ""
			if err != nil && !strings.Contains(err.Error(), "each opens one position") {
				library = err.Error()
				for _, prefix := range []string{"generate: ", "samplers: ", "moment: "} {
					library = strings.TrimPrefix(library, prefix)
				}
			}
			var f samplingFlags
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			f.register(flags, model.Spec{Shape: []int{16}})
			flag := ""
			if err := flags.Parse([]string{fmt.Sprintf("--%s=%v", p.Name, param.Format(x))}); err != nil {
				flag = strings.TrimPrefix(explainFlagError(newText(), err).Error(), "--")
			}
			require.Equal(t, library, flag)
		})
	}
	require.Equal(t, len(fields), tried)
}

// Every numeric flag of every command has its own error for text that is not a number.
func TestNumericFlagsRefuseInOneGrammar(t *testing.T) {
	seen := 0
	for _, cmd := range newRoot().Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			switch f.Value.Type() {
			case "int", "int64", "uint64", "uint", "float", "float64":
			default:
				return
			}
			seen++
			err := cmd.Flags().Set(f.Name, "many")
			require.Error(t, err)
			text := explainFlagError(cmd, err).Error()
			require.NotContains(t, text, "strconv", "%s --%s", cmd.Name(), f.Name)
			require.Regexp(t, `^--?`+f.Name+` is "many", want `, text, "%s --%s",
				cmd.Name(), f.Name)
		})
	}
	require.Greater(t, seen, 40)
}

// A run that makes files too goes on when nobody reads its lines any more.
func TestFinishing(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	defer w.Close()
	_, err = w.WriteString("line\n")
	require.ErrorIs(t, err, syscall.EPIPE)
	n, err := pipeTolerant{w}.Write([]byte("line\n"))
	require.NoError(t, err)
	require.Equal(t, 5, n)
}
