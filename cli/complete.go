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

// values completes flags by name; flags of parameters complete themselves, and all others take
// names of files.
var values = map[string]func() []string{
	"sampler":   samplerNames,
	"schedule":  scheduleNames,
	"model":     modelNames,
	"judge":     modelNames,
	"precision": words("f32", "bf16", "int8"),
	"device":    words("auto", "cpu", "cuda"),
	"quantize":  words("q8_0", "q4_k_m"),
	"fit":       words(images.FitNames...),
	"with":      words("hidden", "attention", "kv", "hidden,attention,kv"),
}

func words(list ...string) func() []string { return func() []string { return list } }

func samplerNames() (list []string) {
	for _, info := range samplers.List() {
		list = append(list, info.Name+"\t"+info.Line)
	}
	return list
}

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
	}
	return append(list, "oracle:markov:length=16,tokens=4")
}

// complete sets the completion of all flags of cmd and its subcommands.
func complete(cmd *cobra.Command) {
	for _, under := range cmd.Commands() {
		complete(under)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		list := values[f.Name]
		if named := flags.AllowedWords(f); named != nil {
			list = words(named...)
		}
		if list != nil {
			cmd.RegisterFlagCompletionFunc(f.Name, completion(list))
		}
	})
	switch cmd.Name() {
	case "inspect":
		cmd.ValidArgsFunction = completion(modelNames)
	case "samplers":
		cmd.ValidArgsFunction = completion(samplerNames)
	}
}

func completion(list func() []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return list(), cobra.ShellCompDirectiveDefault // files, if no name begins like this
	}
}
