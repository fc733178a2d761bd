package cli

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/cli/flags"
	"unmask/cli/share"
	"unmask/cli/terminal"
	"unmask/generate"
	"unmask/internal/atomicfile"
	"unmask/param"
	"unmask/research/experiments"
	"unmask/research/tasks"
	"unmask/samplers"
)

// evalTasksFlags are those of unmask eval tasks.
type evalTasksFlags struct {
	deviceFlags
	methodFlags
	share.Hub
	task     taskFlags
	batch    int
	chunk    int
	seed     uint64
	out      string
	plots    string
	programs string
	json     bool
}

// newEvalTasks returns the command unmask eval tasks.
func newEvalTasks() *cobra.Command {
	var f evalTasksFlags
	cmd := &cobra.Command{
		Use:   "tasks FILE.jsonl|-",
		Short: "Measure answers: word problems, choices, JSON, puzzles",
		Long: `Measure answers to questions whose right answer is known, for each sampler and number of steps.

A line of the file is a request (prompt, messages or infill, and other fields of a line of --prompts)
with its kind and answer:

  {"kind": "number", "prompt": "What is 6 x 7? ####", "answer": 42}   after ####, or the last one
  {"kind": "exact", "prompt": "...", "answer": "Paris"}               or a list of texts
  {"kind": "choice", "prompt": "...", "choices": [" yes", " no"], "answer": 0}   the most likely one
  {"kind": "json", "messages": [...], "schema": {...}, "answer": {"name": "Lily"}}
  {"kind": "sudoku", "prompt": "...", "puzzle": "1.3.\n..."}          also latin-square
  {"kind": "waiting-line", "prompt": "...", "answer": ["Ada", "Ben"]}
  {"kind": "python", "prompt": "..."}                                 written to --programs, not run

The table has right answers with a 95 % interval of Wilson, full passes an answer, tokens a pass and
a second. After an interruption the same command continues. See docs/evaluation.md.`,
		Example: `  unmask eval tasks waiting-line.jsonl --model DIR --sampler confidence,p2 --steps 8,16,32 --length 32
  unmask eval tasks gsm8k.jsonl --model DIR --steps 256 --length 256 --json`,
		Args: exactArgs(1, "a FILE.jsonl"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), cmd.Flags(), args[0])
		},
	}
	f.registerFlags(cmd.Flags())
	return cmd
}

// registerFlags adds the flags.
func (f *evalTasksFlags) registerFlags(s *pflag.FlagSet) {
	f.deviceFlags.register(s, "demo")
	f.methodFlags.register(s, "the model's own", "the model's own")
	flags.Int(s, &f.task.Base.Canvas, param.Param{
		Name:    "length",
		Min:     1,
		Max:     1 << 20,
		Zero:    "the usual one",
		Default: "0",
		Help: "positions of an answer, exactly, as published protocols have them (LLaDA's gen_length); " +
			"0 for the usual number and --max-tokens",
	})
	flags.MaxTokens(s, &f.task.Base.MaxTokens)
	flags.Int(s, &f.batch, param.Param{
		Name:    "batch",
		Min:     1,
		Max:     maxSamples,
		Default: "16",
		Help:    "answers at once; they do not depend on it",
	})
	flags.Int(s, &f.chunk, param.Param{
		Name:    "chunk",
		Min:     1,
		Max:     maxSamples,
		Default: "64",
		Help:    "tasks of a line of --out, which is what an interruption loses and a worker gets",
	})
	addSeedFlag(s, &f.seed, "same seed, same output")
	f.Hub.Register(s)
	s.StringVar(&f.out, "out", "tasks.jsonl", "append results, with all answers, to this `FILE`")
	s.StringVar(&f.plots, "plot", "", "draw accuracy against tokens a pass in this `DIR` (SVG, PNG, PDF), or FILE.pdf")
	s.StringVar(&f.programs, "programs", "", "write the answers of kind python to this `DIR`")
	s.BoolVar(&f.json, "json", false, "one JSON object for each sampler and number of steps")
}

// run answers the tasks of a file, except for those in the journal, and prints accuracies.
func (f *evalTasksFlags) run(ctx context.Context, set *pflag.FlagSet, name string) error {
	if err := f.Hub.Check(set, nil, true, ""); err != nil {
		return err
	}
	if err := checkFile("--out", f.out); err != nil {
		return err
	}
	if f.task.Base.Canvas != 0 && f.task.Base.MaxTokens != 0 {
		return usagef("--length and --max-tokens together, want one of them")
	}
	if filepath.Clean(name) == filepath.Clean(f.out) {
		return usagef("--out is %s, the file of tasks, want another", f.out)
	}
	in, err := flags.OpenInput(name)
	if err != nil {
		return err
	}
	defer in.Close()
	f.task.Tasks, err = tasks.ReadItems(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	m, err := f.newMeasurement(ctx, "text", f.task, &f.Hub)
	if err != nil {
		return err
	}
	logNotes(m.task.Note)
	results, err := m.measureInto(ctx, f.out, f.taskPoints(m.task.ModelRecipe))
	if err != nil {
		return err
	}
	return f.printResults(results)
}

// taskPoints returns what is measured; usual is the recipe of the model's published run.
func (f *evalTasksFlags) taskPoints(recipe generate.Recipe) []experiments.Point {
	if f.methods == nil {
		f.methods = []experiments.Point{{Sampler: samplers.Text(recipe.Sampler)}}
	}
	if f.steps == nil {
		f.steps = []int{max(1, recipe.Steps)}
	}
	return tasks.PlanPoints(f.methods, f.steps, len(f.task.Tasks), f.chunk, f.batch, f.seed)
}

// printResults prints the accuracies and writes plots and programs.
func (f *evalTasksFlags) printResults(results []experiments.Result) error {
	list := experiments.Accuracies(results)
	if f.plots != "" {
		chart := experiments.AccuracyChart(list)
		if len(chart.Curves) == 0 {
			return usagef("--plot is %s, but no generated answer was checked", f.plots)
		}
		if err := drawCharts(f.plots, chart); err != nil {
			return err
		}
	}
	if f.programs != "" {
		files := tasks.ProgramFiles(results)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			name, data := filepath.Join(f.programs, name), files[name]
			if err := atomicfile.Put(name, data); err != nil {
				return err
			}
			terminal.Log(name)
		}
	}
	if !f.json {
		return writeStdout(experiments.AccuracyTable(list))
	}
	return printJSONLines(list)
}
