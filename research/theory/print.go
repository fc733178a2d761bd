package theory

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// String returns the result as a table row.
func (r Result) String() string {
	holds := "holds"
	if !r.Holds {
		holds = "DOES NOT HOLD"
	}
	value := fmt.Sprintf("%.4g", r.Statistic)
	if r.Error > 0 {
		value += fmt.Sprintf(" ± %.2g", r.Error)
	}
	return fmt.Sprintf("%-21s %-20s %s %-9.4g %-6s %s: %s", r.Claim, value, r.Relation,
		r.Bound, holds, r.Case, r.Measure)
}

// Write makes all checks and writes each result at once, as a table row or a line of JSON. It
// returns the results and the number of those that do not hold.
func Write(ctx context.Context, w io.Writer, o Options, asJSON bool) (all []Result, failed int,
	err error) {
	line := json.NewEncoder(w)
	line.SetEscapeHTML(false)
	for r, err := range Run(ctx, o) {
		if err != nil {
			return all, failed, err
		}
		all = append(all, r)
		if !r.Holds {
			failed++
		}
		if asJSON {
			err = line.Encode(r)
		} else {
			_, err = fmt.Fprintln(w, r)
		}
		if err != nil {
			return all, failed, err
		}
	}
	return all, failed, nil
}
