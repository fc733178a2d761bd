package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/catalog"
	"unmask/cli/flags"
	"unmask/cli/share"
	"unmask/research/experiments"
)

// exactnessFlags are those of unmask eval exactness.
type exactnessFlags struct {
	deviceFlags
	methodFlags
	share.Hub
	exactness experiments.Exactness
	out       string
	plot      string
	json      bool
}

// newEvalExactness returns the command unmask eval exactness.
func newEvalExactness() *cobra.Command {
	var f exactnessFlags
	cmd := &cobra.Command{
		Use:   "exactness",
		Short: "Compare samplers with the truth: a chain of letters whose posterior is exact",
		Long: `Compare samplers on a model whose marginals are exact, so that what is wrong is the sampler.

The model is a Markov chain of 27 letters (a to z and space) with the pairs of letters of Newton's
Opticks, 128 letters long. Samples are judged by the pairs of neighbouring letters in them: their
Kullback-Leibler divergence from the true ones in nats (KL), and their total variation distance (TV),
each with a 95 % bootstrap interval and without the bias of finite samples; by the mean negative
log-likelihood of a letter (NLL), which is 2.21 nats for the truth and must not be less; and by the
share of samples that equal an earlier one. 0 is right for KL and TV.

Without flags all samplers are measured, at 4, 8, 16, 32, 64 and 128 steps, in some minutes of one
core. After an interruption the same command continues.`,
		Example: `  unmask eval exactness
  unmask eval exactness --sampler "random,hybrid+cache,low-confidence(temperature=1)" --steps 16,32 -n 64`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.Flags()) },
	}
	s := cmd.Flags()
	s.StringVarP(&f.model, "model", "m", experiments.ExactnessModel,
		"exact `MODEL` of a line of positions, such as oracle:hmm:length=N,hidden=16")
	f.registerCompute(s)
	f.methodFlags.register(s, "all", "4,8,16,32,64,128")
	flags.IntP(s, &f.exactness.N, "n", experiments.ExactnessNParam)
	addSeedFlag(s, &f.exactness.Seed, "same seed, same output")
	f.Hub.Register(s)
	s.StringVar(&f.out, "out", "exactness.jsonl", "append results to this `FILE`")
	s.StringVar(&f.plot, "plot", "", "write the figure to this `DIR` (SVG, PNG, PDF), or FILE.pdf")
	s.BoolVar(&f.json, "json", false, "print one JSON object for each point, as in --out")
	return cmd
}

// run measures the points that the journal lacks, and prints all as a table or as JSON.
func (f *exactnessFlags) run(ctx context.Context, set *pflag.FlagSet) error {
	if err := f.Hub.Check(set, nil, true, ""); err != nil {
		return err
	}
	if err := checkFile("--out", f.out); err != nil {
		return err
	}
	if err := f.checkModel(); err != nil {
		return err
	}
	judge := taskFlags{}
	judge.Judge = f.model
	m, err := f.newMeasurement(ctx, "text", judge, &f.Hub)
	if err != nil {
		return err
	}
	f.exactness.Samplers = f.methods
	f.exactness.Steps = f.steps
	points := f.exactness.Points()
	if err := experiments.CheckPoints(m.task, points); err != nil {
		return err
	}
	results, err := m.measureInto(ctx, f.out, points)
	if err != nil {
		return err
	}
	if f.plot != "" {
		if err := drawCharts(f.plot, experiments.ExactnessChart(results)); err != nil {
			return err
		}
	}
	if !f.json {
		return writeStdout(experiments.ExactnessTable(results))
	}
	return printJSONLines(results)
}

// checkModel returns an error for a model without a truth to compare with.
func (f *exactnessFlags) checkModel() error {
	if !catalog.IsExact(f.model) {
		return usagef("--model is %s, want an exact one, such as oracle:letters:length=N", f.model)
	}
	m, err := catalog.ParseExact(f.model)
	switch {
	case err != nil:
		return usagef("%v", wrapError("--model", err))
	case m.Pairs() == nil:
		return usagef("--model is %s, want a line of positions, and more than one", f.model)
	}
	return nil
}
