package cli

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"unmask/cli/terminal"
	"unmask/generate"
	"unmask/samplers"
)

// commandGroup is a list of commands under a title in the help of unmask itself.
type commandGroup struct {
	title string

	// names are those of the commands, in the order in which they are shown.
	names string

	// everyday groups are on the first page, the others only on that of unmask help all.
	everyday bool
}

// commandGroups order the commands by what they are for. A test finds every command in one of them.
var commandGroups = []commandGroup{
	{"Generate", "text chat image speech serve", true},
	{"Models", "pull list inspect", true},
	{"Ask and measure", "decide embed score", true},
	{"Files", "convert schema encode decode logits verify", false},
	{"Samplers and research", "samplers schedule tune eval sweep plot theory reproduce bench", false},
	{"Many machines", "worker gather", false},
	{"Other", "version doctor completion help", false},
}

// firstCommands are what somebody runs who has just installed the program.
const firstCommands = `To begin with:
  unmask chat           talk with a small model that is built in
  unmask text --watch   see a text appear, position by position
  unmask serve          serve the built-in models, with a web page and an OpenAI-style API
`

// rootHelp returns the help of unmask itself, in lines of a width. Without all it is one page: what
// to begin with, and the everyday commands.
func rootHelp(root *cobra.Command, all bool, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s", root.Short, firstCommands)
	for _, g := range commandGroups {
		if !g.everyday && !all {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, name := range strings.Fields(g.names) {
			cmd, _, err := root.Find([]string{name})
			if err != nil || cmd == root { // this build was made without it
				continue
			}
			indent := root.Commands()[0].NamePadding() + 3
			text := wrapParagraphs(cmd.Short, width-indent)
			text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", indent))
			fmt.Fprintf(&b, "  %-*s %s\n", indent-3, name, text)
		}
	}

	b.WriteString("\n\"unmask COMMAND --help\" describes a command.")
	if !all {
		b.WriteString(" \"unmask help all\" lists all commands.")
	}
	b.WriteString("\n")
	return b.String()
}

// flagGroups order the flags of commands that have many. Flags of no group come under Other.
var flagGroups = []struct {
	title string
	names string
}{
	{"What is made", "n prompt infill prompts tokens-in chat system messages length max-tokens " +
		"class negative preset inpaint mask box fit paste outpaint init strength said text language " +
		"voice speed seconds codes model"},
	{"How", "seed " + strings.Join(recipeNames(), " ")},
	{"Constraints", "schema regex choice avoid recursion ban bias min-length end cut"},
	{"Output", "out format save-voice json sheet gif scale trace watch"},
	{"Device", "device threads precision batch"},
	{"Many machines", "shard hub nats log"},
}

// recipeNames returns the flags of a recipe. ban and bias are constraints for a user.
func recipeNames() (names []string) {
	for _, p := range append(generate.Params(), samplers.AlphaParam, samplers.GammaParam) {
		if p.Name != "ban" && p.Name != "bias" {
			names = append(names, p.Name)
		}
	}
	return names
}

// flagUsages describes a command's flags in lines of a width, in groups if the command has the many
// flags of a run.
func flagUsages(cmd *cobra.Command, width int) string {
	flags := cmd.LocalFlags()
	if flags.Lookup("sampler") == nil {
		return "Flags:\n" + strings.TrimRight(flags.FlagUsagesWrapped(width), "\n")
	}

	var b strings.Builder
	listed := map[string]bool{}
	writeGroup := func(title string, belongs func(name string) bool) {
		group := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.VisitAll(func(f *pflag.Flag) {
			if !listed[f.Name] && belongs(f.Name) {
				listed[f.Name] = true
				group.AddFlag(withoutModelDefault(f, title == "How"))
			}
		})
		if text := group.FlagUsagesWrapped(width); text != "" {
			fmt.Fprintf(&b, "%s:\n%s\n", title, text)
		}
	}
	for _, g := range flagGroups {
		names := strings.Fields(g.names)
		writeGroup(g.title, func(name string) bool { return slices.Contains(names, name) })
	}
	writeGroup("Other", func(string) bool { return true })
	b.WriteString(wrapParagraphs("A flag of How that you leave out has the value of the model's\n"+
		"published run, which unmask inspect MODEL shows.", width))
	return b.String()
}

// withoutModelDefault returns a flag without its default if that depends on the model: help is
// shown before any model is loaded. The seed has one default for all models.
func withoutModelDefault(f *pflag.Flag, fromModel bool) *pflag.Flag {
	if !fromModel || f.Name == "seed" {
		return f
	}
	bare := *f
	bare.DefValue = ""
	if f.Value.Type() == "int" {
		bare.DefValue = "0" // which pflag does not show
	}
	return &bare
}

// helpWidth returns the columns of the terminal that shows help, 100 where it is none.
func helpWidth() int {
	const narrowest = 40
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width < narrowest {
		return 100
	}
	return width
}

// wrapParagraphs returns a description in lines of at most width columns, as far as words allow.
// Lists and examples, which are indented, and paragraphs that fit stay as they are.
func wrapParagraphs(text string, width int) string {
	paragraphs := strings.Split(strings.TrimRight(text, "\n"), "\n\n")
	for i, p := range paragraphs {
		tooWide := slices.ContainsFunc(strings.Split(p, "\n"), func(line string) bool {
			return utf8.RuneCountInString(line) > width
		})
		indented := strings.HasPrefix(p, " ") || strings.Contains(p, "\n ")
		if !tooWide || indented {
			continue
		}
		filled := terminal.WrapText(strings.Join(strings.Fields(p), " "), width)
		paragraphs[i] = strings.ReplaceAll(filled, " \n", "\n")
	}
	return strings.Join(paragraphs, "\n\n")
}

// setHelpTemplates makes the help of every command fit the terminal, with flags by flagUsages.
func setHelpTemplates(root *cobra.Command) {
	cobra.AddTemplateFuncs(template.FuncMap{
		"flagUsages": func(cmd *cobra.Command) string { return flagUsages(cmd, helpWidth()) },
		"inList": func(cmd *cobra.Command) string {
			indent := 3 + cmd.NamePadding()
			text := wrapParagraphs(cmd.Short, helpWidth()-indent)
			return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", indent))
		},
	})

	// Cobra's template is edited and not replaced, so that it stays right with later versions.
	const flags = `Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}`
	usage := root.UsageTemplate()
	if !strings.Contains(usage, flags) || !strings.Contains(usage, "{{.Short}}") {
		panic("cli: cobra's template of a usage has another form")
	}
	edit := strings.NewReplacer(flags, "{{flagUsages .}}", "{{.Short}}", "{{inList .}}")
	root.SetUsageTemplate(edit.Replace(usage))

	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if cmd == root {
			fmt.Fprint(cmd.OutOrStdout(), rootHelp(root, false, helpWidth()))
			return
		}
		description := wrapParagraphs(cmp.Or(cmd.Long, cmd.Short), helpWidth())
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", description, cmd.UsageString())
	})
}

// newHelp returns the help command. Unlike cobra's it refuses unknown topics, where that one shows
// the help of the root and exits as after success, and it has "all".
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND | all]",
		Short: "Describe a command, or list all commands",
		RunE: func(help *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "all" {
				_, err := fmt.Fprint(help.OutOrStdout(), rootHelp(root, true, helpWidth()))
				return err
			}
			cmd, unknown, err := root.Find(args)
			if err != nil || len(unknown) > 0 {
				return noArgs(cmd, append(unknown, args...))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// newMan returns the command that writes manual pages, for packagers.
func newMan(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages, a file for each command, unmask.1 and so on",
		Args:   exactArgs(1, "a DIR for the pages"),
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] == "-" {
				return usagef("DIR is -, want a folder's name")
			}
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "unmask", Manual: "unmask"}
			return doc.GenManTree(root, header, args[0])
		},
	}
}
