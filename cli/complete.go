package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/catalog"
	"unmask/cli/flags"
	"unmask/media/images"
	"unmask/samplers"
	"unmask/weights/hub"
)

// flagCompletions completes flags by name; flags of parameters complete themselves, and all others
// take names of files.
var flagCompletions = map[string]func() []string{
	"sampler":   samplerNames,
	"schedule":  scheduleNames,
	"model":     modelNames,
	"judge":     modelNames,
	"precision": fixedNames("f32", "bf16", "int8"),
	"device":    fixedNames("auto", "cpu", "cuda"),
	"quantize":  fixedNames("q8_0", "q4_k_m"),
	"fit":       fixedNames(images.FitNames...),
	"with":      fixedNames("hidden", "attention", "kv", "hidden,attention,kv"),
}

// fixedNames returns a list for completion that does not change.
func fixedNames(list ...string) func() []string { return func() []string { return list } }

// samplerNames returns the samplers, each with its description behind a tab, as shells show it.
func samplerNames() (list []string) {
	for _, info := range samplers.List() {
		list = append(list, info.Name+"\t"+info.Line)
	}
	return list
}

// scheduleNames returns the schedules.
func scheduleNames() (list []string) {
	for _, s := range samplers.Schedules() {
		list = append(list, s.String())
	}
	return list
}

// modelNames returns the names of the available models: embedded ones, and those in the hub's
// cache.
func modelNames() []string {
	list := catalog.Embedded()
	cached, err := hub.List()
	if err != nil {
		return list
	}
	for _, c := range cached {
		list = append(list, c.Repo)
		for _, folder := range c.Folders {
			list = append(list, c.Repo+":"+folder+"/")
		}
	}
	return append(list, "oracle:markov:length=16,tokens=4")
}

// registerCompletions sets the completion of all flags of cmd and its subcommands.
func registerCompletions(cmd *cobra.Command) {
	for _, subcommand := range cmd.Commands() {
		registerCompletions(subcommand)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		list := flagCompletions[f.Name]
		if allowed := flags.AllowedWords(f); allowed != nil {
			list = fixedNames(allowed...)
		}
		if list != nil {
			cmd.RegisterFlagCompletionFunc(f.Name, completeFrom(list))
		}
	})
	switch cmd.Name() {
	case "inspect":
		cmd.ValidArgsFunction = completeFrom(modelNames)
	case "samplers":
		cmd.ValidArgsFunction = completeFrom(samplerNames)
	}
}

// completeFrom returns a completion by a list, which is made when the user asks for it.
func completeFrom(list func() []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return list(), cobra.ShellCompDirectiveDefault // files, if no name begins like this
	}
}
