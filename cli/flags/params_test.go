package flags_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"unmask/cli/flags"
	"unmask/param"
)

// A flag refuses what its parameter refuses, with the same words.
func ExampleInt() {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	var steps int
	var heat float64
	flags.Int(set, &steps, param.Param{Name: "steps", Min: 1, Max: 4096, Default: "32",
		Help: "denoising steps N"})
	flags.Float(set, &heat, param.Param{Name: "heat", Min: 0.001, Max: 1e6, Default: "1",
		Help: "temperature of tokens"})
	fmt.Println(set.Parse([]string{"--heat", "0.5"}), steps, heat, flags.ChangedValues(set))
	fmt.Println(flags.CommandLine("command", set))
	fmt.Println(flags.ExplainError(set.Parse([]string{"--steps", "0"})))
	fmt.Println(flags.ExplainError(set.Parse([]string{"--steps", "many"})))
	// Output:
	// <nil> 32 0.5 map[heat:0.5]
	// command --heat=0.5
	// --steps is 0, want 1 to 4096
	// --steps is "many", want a whole number, 1 to 4096
}

// The name of a flag stands once in front of an error.
func TestWrapNamesOnce(t *testing.T) {
	for name, c := range map[string][3]string{
		"a parameter": {"--voice", "voice: codes are [2 3]", "--voice: codes are [2 3]"},
		"a sentence":  {"--model", "model name is twice", "--model name is twice"},
		"another":     {"--out", "outputs are there", "--out: outputs are there"},
		"a stream":    {"standard output", "standard output is full", "standard output: standard output is full"},
	} {
		t.Run(name, func(t *testing.T) {
			cause := errors.New(c[1])
			err := flags.Wrap(c[0], cause)
			require.EqualError(t, err, c[2])
			require.ErrorIs(t, err, cause)
		})
	}
	require.NoError(t, flags.Wrap("--out", nil))
}
