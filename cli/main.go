// Package cli is the whole command line of unmask as a library: a program of another module that
// registers samplers and networks of its own and calls [Main] has them in every command.
//
// Results go to standard output or to files, progress and errors to standard error. The exit status
// is 0 after success, or if the reader of a pipe stops reading; 2 after a mistake on the command
// line itself; 1 after any other error, also in a file that the command line names; and 128 plus
// the signal's number after SIGINT (130), SIGTERM (143) or SIGHUP (129).
package cli

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"unmask/cli/flags"
	"unmask/cli/share"
	"unmask/cli/terminal"
	"unmask/internal/atomicfile"
	"unmask/internal/buildinfo"
	"unmask/runs/outputs"
)

// errInterrupted ends a stopped run, after its finished outputs were written.
var errInterrupted = outputs.ErrStopped

// Main runs a command line, without the program's name, and returns the exit status. The program
// should exit then: signals are no longer handled.
func Main(args []string) int {
	embedDemos()
	ctx, stop, release := terminal.WithSignals(context.Background())
	defer release()

	root := newRoot()
	root.SetArgs(joinCacheCount(args))
	stdout.err = nil
	root.SetOut(stdout)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = stdout.err
	}

	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return stop.ExitStatus()
	case errors.Is(err, syscall.EPIPE): // the reader needs no more
		return 0
	}
	terminal.Logf("%s: %s", cmd.CommandPath(), errorLine(err))
	if errors.Is(err, flags.ErrUsage) {
		return 2
	}
	return 1
}

// newRoot returns the command unmask with all its subcommands.
//
// Where cobra's own behaviour is replaced, it is because of what a user sees after a mistake: here
// that is always one line, which names what was found and what would be right, and exit status 2.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "unmask",
		Short: "Run masked diffusion models of text, images and speech",

		// Main prints errors, in one line. Cobra would print a page of flags below each, also where
		// no flag was wrong, such as for a model that is not found.
		SilenceErrors: true,
		SilenceUsage:  true,

		// Cobra has no hints for words that are no commands, and runs a command that only has
		// subcommands whatever its arguments are.
		Args:              noArgs,
		PersistentPreRunE: checkFlagsAndArgs,
		RunE:              showHelp,
	}
	root.Version = buildinfo.Version()
	root.SetVersionTemplate("{{.Version}}\n") // for scripts: the version alone, without a name
	root.SetHelpCommand(newHelp(root))
	root.SetFlagErrorFunc(explainFlagError)
	root.AddCommand(newMan(root), newText(), newChat(), new(imageFlags).command(),
		new(speechFlags).command(), newEncode(), newDecode(), newConvert(), newVerify(),
		share.GatherCommand(), newSamplers(), newTheory(), newSchedule(), newLogits(), newScore(),
		newDecide(), newEmbed(), newInspect(), newSchema(), newPull(), newList(), newEval(),
		newSweep(), newPlot(), newReproduce(), newTune(), newBench(), newServe(), newVersion(),
		newDoctor())
	root.AddCommand(share.WorkerCommands(buildRun)...)
	setHelpTemplates(root)
	registerCompletions(root)

	// Cobra's own completion command accepts any argument; this one names the shells that exist.
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Args = noArgs
		c.RunE = showHelp
	}
	return root
}

// showHelp shows the help of a command that only has subcommands.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// unknownCommand returns an error for a name that is no command, with the command that was probably
// meant. Cobra suggests by spelling alone; commandHints has words of other programs too.
func unknownCommand(cmd *cobra.Command, name string) error {
	if hint := commandHints[name]; hint != "" {
		return usagef("unknown command %q, did you mean %s?", name, hint)
	}
	cmd.SuggestionsMinimumDistance = 2
	similar := slices.Sorted(slices.Values(cmd.SuggestionsFor(name)))
	if len(similar) > 0 {
		return usagef("unknown command %q, did you mean %s?", name, strings.Join(similar, " or "))
	}
	return usagef("unknown command %q, want one of %s", name, strings.Join(commandNames(cmd), ", "))
}

// commandNames returns the names of the subcommands that help shows.
func commandNames(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

// noArgs returns an error for arguments that are not flags, and for unknown commands.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return unknownCommand(cmd, args[0])
	}
	return usagef("argument is %q, want flags only", args[0])
}

// textArg allows one argument, which stands for a flag. More of them are a text without its quotes,
// so the error shows the quotes.
func textArg(flag string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			count := terminal.FormatCount(len(args), "argument")
			return usagef("%s, want one, the %s in quotes: %q", count, flag, strings.Join(args, " "))
		}
		return nil
	}
}

// setTextFlag sets a flag from the argument that textArg allows.
func setTextFlag(cmd *cobra.Command, flag string, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Changed(flag):
		return usagef("argument %q and --%s together, want one of them", args[0], flag)
	case args[0] == "":
		return usagef("--%s is empty, want a value, or no --%s", flag, flag)
	}
	return cmd.Flags().Set(flag, args[0])
}

// commandHints are words that people try, with the commands that they mean.
var commandHints = map[string]string{
	"run":        "text, image, speech or chat",
	"generate":   "text, image or speech",
	"tts":        "speech",
	"say":        "speech",
	"speak":      "speech",
	"complete":   "text",
	"completion": "text",
	"server":     "serve",
	"download":   "pull",
	"ls":         "list",
	"repl":       "chat",
	"talk":       "chat",
	"infill":     "text --infill",
	"inpaint":    "image --inpaint",
}

// exactArgs requires n arguments.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s, want %s", terminal.FormatCount(len(args), "argument"), what)
		}
		return nil
	}
}

// usagef returns an error about the command line itself, for which the exit status is 2.
func usagef(format string, args ...any) error { return flags.Usagef(format, args...) }

// joinCacheCount joins --cache with a count that follows it, so --cache 3 becomes --cache=3: pflag
// reads an optional value only behind an equals sign.
func joinCacheCount(args []string) []string {
	var joined []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--cache" && i+1 < len(args) && digits.MatchString(args[i+1]) {
			joined = append(joined, args[i]+"="+args[i+1])
			i++
			continue
		}
		joined = append(joined, args[i])
	}
	return joined
}

var digits = regexp.MustCompile(`^-?[0-9]+$`)

// errorLine returns an error's message in one line, whatever a file or a template put into it.
func errorLine(err error) string {
	return strings.Join(strings.Fields(atomicfile.Message(err)), " ")
}
