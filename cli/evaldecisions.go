package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"unmask/decide"
)

// evalDecisionsFlags are those of unmask eval decisions.
type evalDecisionsFlags struct {
	deviceFlags
	calibration string
}

// newEvalDecisions returns the command unmask eval decisions.
func newEvalDecisions() *cobra.Command {
	var f evalDecisionsFlags
	cmd := &cobra.Command{
		Use:   "decisions FILE.jsonl",
		Short: "Measure how far choices depend on the order of their options",
		Long: `Ask every choice of FILE.jsonl twice, the second time with its options reversed.

Lines are those of unmask decide --calibrate; questions of other types are left out. Printed are the share
of questions whose most probable option moves, the mean total variation distance between the two
distributions, and log loss, Brier score, expected calibration error and accuracy in each order and
of the mean of both.`,
		Args:    exactArgs(1, "a FILE.jsonl of states, questions and right answers"),
		Example: `  unmask eval decisions known.jsonl --model DIR`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0])
		},
	}
	f.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&f.calibration, "calibration", "",
		"`FILE` that unmask decide --calibrate wrote")
	return cmd
}

// run measures by how much the order of the options decides answers, with the questions of a file
// whose right answers are known.
func (f *evalDecisionsFlags) run(ctx context.Context, file string) error {
	input := questionFlags{calibrate: file}
	lines, err := input.readInput()
	if err != nil {
		return err
	}
	var list []decide.KnownQuestion
	for _, line := range lines {
		for i, question := range line.questions {
			if question.Kind == decide.Choice {
				list = append(list, decide.KnownQuestion{
					State:    line.state,
					Question: question,
					Right:    line.right[i],
				})
			}
		}
	}
	if len(list) == 0 {
		return usagef("%s has no question of the type choice, want one at least", file)
	}
	var o decide.Options
	if f.calibration != "" {
		if o.Calibration, err = decide.ReadCalibration(f.calibration); err != nil {
			return wrapError("--calibration", err)
		}
	}
	m, err := f.loadModel(ctx)
	if err != nil {
		return err
	}
	effect, err := decide.MeasureOrder(ctx, m, list, o)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(effect, "", " ")
	if err != nil {
		return err
	}
	return printLine(string(data))
}
