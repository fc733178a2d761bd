package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/demo"
	"unmask/param"
	"unmask/research/experiments"
	"unmask/research/theory"
)

func newTheory() *cobra.Command {
	var o theory.Options
	var d deviceFlags
	var asJSON bool
	var plots string
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
			for _, claim := range o.Only {
				if !slices.Contains(theory.Claims(), claim) {
					return usage("--only is %q, want %s", claim, strings.Join(theory.Claims(), ", "))
				}
			}
			if plots != "" && !experiments.Drawn(o.Only) {
				return usage("--plot with claims that have no curve, want %s",
					strings.Join(experiments.DrawnClaims(), ", "))
			}
			device, err := d.options()
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
			o.Networks = []theory.Network{{Name: "demo of text", Denoiser: text.Denoiser, Sequences: 6},
				{Name: "demo of images", Denoiser: image.Denoiser, Sequences: 40}}
			ctx, cancel := terminal.UntilStopped(cmd.Context())
			defer cancel()
			results, failed, err := theory.Write(ctx, cmd.OutOrStdout(), o, asJSON)
			if err != nil {
				return err
			}
			if plots != "" {
				names, err := experiments.DrawCharts(plots, experiments.TheoryCharts(results))
				for _, name := range names {
					terminal.Line(name)
				}
				if err != nil {
					return err
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d checks do not hold", failed, len(results))
			}
			return nil
		},
	}
	d.registerCompute(cmd.Flags())
	seedFlag(cmd.Flags(), &o.Seed, "same seed, same output")
	flags.Int(cmd.Flags(), &o.Draws,
		param.Param{Name: "draws", Min: 1000, Max: 1e6, Default: "4000",
			Help: "sequences drawn for each count"})
	flags.Int(cmd.Flags(), &o.Most, param.Param{Name: "most", Min: 256, Max: 1 << 20, Default: "16384",
		Help: "masked positions in theorem 1's largest case"})
	cmd.Flags().StringSliceVar(&o.Only, "only", nil,
		"check only these `CLAIMS`, such as 'theorem 1,equation 5'")
	cmd.Flags().BoolVar(&asJSON, "json", false,
		"one JSON object a line: claim, case, measure, statistic, error, relation, bound, holds")
	cmd.Flags().StringVar(&plots, "plot", "", "write the plots to this `DIR` (SVG, PNG)")
	return cmd
}
