package cli

import (
	"runtime"
	"strconv"

	"github.com/spf13/pflag"

	"unmask/param"
	"unmask/param/flags"
)

// threadsFlag adds --threads.
func threadsFlag(f *pflag.FlagSet, to *int, help string) {
	flags.Int(f, to, param.Param{Name: "threads", Min: 1, Max: maxThreads,
		Default: strconv.Itoa(min(runtime.GOMAXPROCS(0), maxThreads)), Help: help})
}

// lengthFlag adds --length.
func lengthFlag(f *pflag.FlagSet, to *int) {
	flags.Int(f, to, param.Param{Name: "length", Min: 1, Max: 1 << 30, Zero: "the model's",
		Default: "0",
		Help:    "tokens of a sample, 0 for the model's length"})
}

// seedFlag adds --seed.
func seedFlag(f *pflag.FlagSet, to *uint64, help string) { flags.Seed(f, to, "seed", help) }

// flagError is a mistake in a flag.
func flagError(err error) error { return usage("%v", flags.Explain(err)) }
