package flags_test

import (
	"fmt"

	"github.com/spf13/pflag"

	"unmask/cli/flags"
	"unmask/generate"
	"unmask/model"
)

// A user's own program has the flags of unmask text.
func ExampleRecipe() {
	defaults := generate.Defaults(model.Spec{Shape: []int{64}})
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.RegisterRecipe(set, defaults)
	if err := set.Parse([]string{"--sampler", "moment", "--alpha", "3", "--steps", "8"}); err != nil {
		panic(err)
	}
	fmt.Println(flags.RecipeOverrides(set).ApplyTo(defaults))
	// Output: sampler=moment(alpha=3) schedule=uniform steps=8 cache=1 <nil>
}
