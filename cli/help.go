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

// commandGroups order the commands by what they are for.
var commandGroups = []struct {
	id    string
	title string
	names string
}{
	{"make", "Generate:", "text chat image speech serve"},
	{"models", "Models and files:", "pull list inspect convert encode decode logits score decide embed schema " +
		"verify"},
	{"many", "Many machines:", "worker gather hub"},
	{"research", "Samplers and research:", "samplers schedule theory eval sweep plot reproduce tune " +
		"bench"},
}

// groupCommands puts the commands into groups for the help of the root.
func groupCommands(root *cobra.Command) {
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range root.Commands() {
			if slices.Contains(strings.Fields(g.names), c.Name()) {
				c.GroupID = g.id
			}
		}
	}
}

// flagGroups order the flags of commands that have many. Flags of no group come under Other.
var flagGroups = []struct {
	title string
	names string
}{
	{"What is made", "n prompt infill prompts tokens-in chat system messages length max-tokens class " +
		"negative preset inpaint mask box fit paste outpaint init strength said text language voice " +
		"speed seconds codes model"},
	{"How", "seed " + strings.Join(recipeNames(), " ")},
	{"Constraints", "schema regex choice avoid recursion ban bias min-length end cut"},
	{"Output", "out format save-voice json sheet gif scale trace watch"},
	{"Device", "device threads precision batch"},
	{"Many machines", "shard hub nats log"},
}

func recipeNames() (names []string) {
	for _, p := range append(generate.Params(), samplers.AlphaParam, samplers.GammaParam) {
		if p.Name != "ban" && p.Name != "bias" {
			names = append(names, p.Name)
		}
	}
	return names
}

// flagUsages describes a command's flags, in groups if it has the many flags of a run, in lines of
// a width.
func flagUsages(cmd *cobra.Command, width int) string {
	all := cmd.LocalFlags()
	if all.Lookup("sampler") == nil {
		return "Flags:\n" + strings.TrimRight(all.FlagUsagesWrapped(width), "\n")
	}
	var b strings.Builder
	listed := map[string]bool{}
	show := func(title string, belongs func(name string) bool) {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		all.VisitAll(func(f *pflag.Flag) {
			if !listed[f.Name] && belongs(f.Name) {
				listed[f.Name] = true
				set.AddFlag(withoutModelDefault(f, title == "How"))
			}
		})
		if text := set.FlagUsagesWrapped(width); text != "" {
			fmt.Fprintf(&b, "%s:\n%s\n", title, text)
		}
	}
	for _, g := range flagGroups {
		names := strings.Fields(g.names)
		show(g.title, func(name string) bool { return slices.Contains(names, name) })
	}
	show("Other", func(string) bool { return true })
	b.WriteString(wrapParagraphs("Flags of How that are not given have the values of the model's published\n"+
		"run, which unmask inspect MODEL shows.", width))
	return b.String()
}

// withoutModelDefault returns a flag without its default if that is the model's, except for the
// seed.
func withoutModelDefault(f *pflag.Flag, fromModel bool) *pflag.Flag {
	if !fromModel || f.Name == "seed" {
		return f
	}
	bare := *f
	if bare.DefValue = ""; f.Value.Type() == "int" {
		bare.DefValue = "0"
	}
	return &bare
}

// helpWidth returns the columns of the terminal that shows help, 100 where it is none.
func helpWidth() int {
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width >= 40 {
		return width
	}
	return 100
}

// wrapParagraphs returns a description in lines of at most width columns, as far as words allow.
// Lists and examples, which are indented, and paragraphs that fit stay as they are.
func wrapParagraphs(text string, width int) string {
	paragraphs := strings.Split(strings.TrimRight(text, "\n"), "\n\n")
	for i, p := range paragraphs {
		fits := !slices.ContainsFunc(strings.Split(p, "\n"), func(line string) bool {
			return utf8.RuneCountInString(line) > width
		})
		if fits || strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") {
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
			return strings.ReplaceAll(wrapParagraphs(cmd.Short, helpWidth()-indent), "\n",
				"\n"+strings.Repeat(" ", indent))
		},
	})
	const flags = `Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}`
	usage := root.UsageTemplate()
	if !strings.Contains(usage, flags) || !strings.Contains(usage, "{{.Short}}") {
		panic("cli: cobra's template of a usage has another form")
	}
	root.SetUsageTemplate(strings.NewReplacer(flags, "{{flagUsages .}}", "{{.Short}}", "{{inList .}}").
		Replace(usage))
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s",
			wrapParagraphs(cmp.Or(cmd.Long, cmd.Short), helpWidth()), cmd.UsageString())
	})
}

// newMan returns the command that writes manual pages, for packagers.
func newMan(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages, a file for each command, unmask.1 and so on",
		Args:   exactArgs(1, "an existing DIR for the pages"),
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{
				Section: "1",
				Source:  "unmask",
				Manual:  "unmask",
			}, args[0])
		},
	}
}
