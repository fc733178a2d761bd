package flags_test

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/cli/flags"
)

// A user's own command has the flags of unmask text for what is known.
func Example() {
	m, err := unmask.Load(context.Background(), "oracle:markov:length=8,tokens=3", unmask.Options{})
	if err != nil {
		panic(err)
	}
	var text flags.Text
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	text.Register(set)
	if err := set.Parse([]string{"--infill", "ab[5]c", "--ban", "2"}); err != nil {
		panic(err)
	}
	if err := text.Check(context.Background(), set); err != nil {
		panic(err)
	}
	request, err := text.Request(m, nil)
	if err != nil {
		panic(err)
	}
	prepared, err := m.Prepare(context.Background(), request)
	if err != nil {
		panic(err)
	}
	fmt.Println(m.Text.Decode(prepared.Known), prepared.Filter.Ban)
	// Output: ab▯▯▯▯▯c [2]
}
