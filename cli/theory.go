package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/demo"
	"unmask/experiments"
	"unmask/internal/whole"
	"unmask/param"
	"unmask/param/flags"
	"unmask/terminal"
	"unmask/theory"
)

// theoryRecord is one line of --json.
type theoryRecord struct {
	Claim     string  `json:"claim"`
	Case      string  `json:"case"`
	Measure   string  `json:"measure"` // what the statistic is
	Statistic float64 `json:"statistic"`
	Error     float64 `json:"error"`    // half of the 95 % interval, 0 where exact or a count
	Relation  string  `json:"relation"` // of the statistic to the bound
	Bound     float64 `json:"bound"`
	Holds     bool    `json:"holds"`
}

func newTheory() *cobra.Command {
	var o theory.Options
	var d deviceFlags
	var asJSON bool
	var plots string
	cmd := &cobra.Command{
		Use:   "theory",
		Short: "Check the paper's claims on models that are known exactly",
		Long: `Check the paper's claims on models that are known exactly (Hayakawa et al. 2025,
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
			out, line := cmd.OutOrStdout(), json.NewEncoder(cmd.OutOrStdout())
			line.SetEscapeHTML(false)
			var results []theory.Result
			failed := 0
			for r, err := range theory.Run(ctx, o) {
				if err != nil {
					return err
				}
				results = append(results, r)
				if !r.Holds {
					failed++
				}
				if asJSON {
					err = line.Encode(record(r))
				} else {
					err = printClaim(out, r)
				}
				if err != nil {
					return fmt.Errorf("standard output: %w", whole.Cause(err))
				}
			}
			if plots != "" {
				if err := plotTheory(plots, results); err != nil {
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
		param.Param{Name: "draws", Min: 1000, Max: 1e6, Default: "4000", Help: "sequences of each count"})
	flags.Int(cmd.Flags(), &o.Most, param.Param{Name: "most", Min: 256, Max: 1 << 20, Default: "16384",
		Help: "masked positions of theorem 1's largest case"})
	cmd.Flags().StringSliceVar(&o.Only, "only", nil,
		"check these `CLAIMS` alone, such as 'theorem 1,equation 5'")
	cmd.Flags().BoolVar(&asJSON, "json", false,
		"one JSON object a line: claim, case, measure, statistic, error, relation, bound, holds")
	cmd.Flags().StringVar(&plots, "plot", "", "write the plots to this `DIR` (SVG, PNG)")
	return cmd
}

func record(r theory.Result) theoryRecord {
	out := theoryRecord{r.Claim, r.Case, r.Measure, r.Statistic, r.Error, "<=", r.Bound, r.Holds}
	if r.Above {
		out.Relation = ">="
	}
	return out
}

// printClaim is a row of the table.
func printClaim(out io.Writer, r theory.Result) error {
	row := record(r)
	holds := "holds"
	if !r.Holds {
		holds = "DOES NOT HOLD"
	}
	value := fmt.Sprintf("%.4g", row.Statistic)
	if row.Error > 0 {
		value += fmt.Sprintf(" ± %.2g", row.Error)
	}
	_, err := fmt.Fprintf(out, "%-21s %-20s %s %-9.4g %-6s %s: %s\n", row.Claim, value, row.Relation,
		row.Bound, holds, row.Case, row.Measure)
	return err
}

// theoryCharts are how claims are drawn; the others have no curve.
var theoryCharts = map[string]experiments.Chart{
	"proposition 1": {Name: "proposition1", Title: "Gumbel-top-3 of 5, each order",
		X: "probability by the formula", Y: "measured frequency", LogX: true, LogY: true},
	"theorem 1": {Name: "theorem1",
		Title: "Total variation of maskgit and moment, one round", X: "N / k²", Y: "total variation",
		LogX: true, LogY: true},
	"implicit temperature": {Name: "temperature", Title: "Tokens that maskgit commits",
		X: "p of the model", Y: "frequency"},
	"equation 5": {Name: "equation5",
		Title: "D(q||p) of two rounds, and its bound a-b+c (Markov chain of 6)",
		X:     "positions of the first round", Y: "nats"},
	"partial caching": {Name: "caching",
		Title: "Second half of a step, from the exact conditional", X: "step", Y: "total variation"},
}

// plotTheory draws each claim that has a curve.
func plotTheory(dir string, results []theory.Result) error {
	drawn := 0
	for _, claim := range theory.Claims() {
		chart, ok := theoryCharts[claim]
		for _, r := range results {
			if ok && r.Claim == claim {
				addPoints(&chart, r.Points)
			}
		}
		if len(chart.Curves) == 0 {
			continue
		}
		for _, c := range chart.Curves {
			sort.Stable(byX(c))
		}
		if err := writeChart(dir, &chart); err != nil {
			return err
		}
		terminal.Say("%s.svg, .png", filepath.Join(dir, chart.Name))
		drawn++
	}
	if drawn == 0 {
		return usage("--plot with claims that have no curve, want %s",
			strings.Join(slices.Sorted(maps.Keys(theoryCharts)), ", "))
	}
	return nil
}

// addPoints appends to the curves of a chart by their names.
func addPoints(chart *experiments.Chart, points []theory.Point) {
	for _, p := range points {
		at := slices.IndexFunc(chart.Curves, func(c experiments.Curve) bool { return c.Name == p.Curve })
		if at < 0 {
			at = len(chart.Curves)
			chart.Curves = append(chart.Curves, experiments.Curve{Name: p.Curve})
		}
		c := &chart.Curves[at]
		c.X, c.Y, c.Error = append(c.X, p.X), append(c.Y, p.Y), append(c.Error, p.Error)
	}
}

// byX sorts a curve's points.
type byX experiments.Curve

func (c byX) Len() int           { return len(c.X) }
func (c byX) Less(i, j int) bool { return c.X[i] < c.X[j] }
func (c byX) Swap(i, j int) {
	c.X[i], c.X[j] = c.X[j], c.X[i]
	c.Y[i], c.Y[j] = c.Y[j], c.Y[i]
	c.Error[i], c.Error[j] = c.Error[j], c.Error[i]
}
