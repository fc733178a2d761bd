package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/cli/flags"
	"unmask/demo"
	"unmask/param"
	"unmask/research/experiments"
	"unmask/research/theory"
)

type theoryFlags struct {
	deviceFlags
	options theory.Options
	json    bool
	plots   string
}

// newTheory returns the command unmask theory.
func newTheory() *cobra.Command {
	f := &theoryFlags{}
	cmd := &cobra.Command{
		Use: "theory",
		Example: `  unmask theory                      all claims
  unmask theory --only "theorem 1" --json`,
		Short: "Check the paper's claims on models with exactly known distributions",
		Long: `Check the paper's claims on models with exactly known distributions (Hayakawa et al. 2025,
"Demystifying MaskGIT Sampler and Beyond"); partial caching on the embedded networks.

Each line is a statistic and what it must not exceed (<=) or must reach (>=). Counts are judged
by chi-square, at a bound that they pass once in 100,000 times by chance; Monte Carlo
estimates by the end of their 95 % interval. The exit status is 1 where a claim does not hold.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f.registerCompute(cmd.Flags())
	addSeedFlag(cmd.Flags(), &f.options.Seed, "same seed, same output")
	flags.Int(cmd.Flags(), &f.options.Draws,
		param.Param{
			Name:    "draws",
			Min:     1000,
			Max:     1e6,
			Default: "4000",
			Help:    "sequences drawn for each count",
		})
	flags.Int(cmd.Flags(), &f.options.Most, param.Param{
		Name:    "most",
		Min:     256,
		Max:     1 << 20,
		Default: "16384",
		Help:    "masked positions in theorem 1's largest case",
	})
	cmd.Flags().StringSliceVar(&f.options.Only, "only", nil,
		"check only these `CLAIMS`, such as 'theorem 1,equation 5'")
	cmd.Flags().BoolVar(&f.json, "json", false,
		"one JSON object a line: claim, case, measure, statistic, error, relation, bound, holds")
	cmd.Flags().StringVar(&f.plots, "plot", "", "write the plots to this `DIR` (SVG, PNG, PDF), or FILE.pdf")
	return cmd
}

// run checks the claims and writes a line for each check; one that does not hold is an error.
func (f *theoryFlags) run(ctx context.Context, w io.Writer) error {
	for _, claim := range f.options.Only {
		if !slices.Contains(theory.Claims(), claim) {
			return usagef("--only is %q, want %s", claim, strings.Join(theory.Claims(), ", "))
		}
	}
	if f.plots != "" && !experiments.HasChart(f.options.Only) {
		return usagef("--plot with claims that have no curve, want %s",
			strings.Join(experiments.ChartedClaims(), ", "))
	}
	device, err := f.loadOptions()
	if err != nil {
		return err
	}
	text, err := unmask.LoadFS(demo.Text(), "demo", device)
	if err != nil {
		return err
	}
	image, err := unmask.LoadFS(demo.Image(), "demo", device)
	if err != nil {
		return err
	}
	f.options.Networks = []theory.Network{
		{Name: "demo of text", Denoiser: text.Denoiser, Sequences: 6},
		{Name: "demo of images", Denoiser: image.Denoiser, Sequences: 40},
	}
	results, failed, err := theory.Write(ctx, w, f.options, f.json)
	if err != nil {
		return err
	}
	if f.plots != "" {
		if err := drawCharts(f.plots, experiments.TheoryCharts(results)...); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks do not hold", failed, len(results))
	}
	return nil
}
