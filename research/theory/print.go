package theory

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// Record is a Result as JSON.
type Record struct {
	Claim     string  `json:"claim"`
	Case      string  `json:"case"`
	Measure   string  `json:"measure"` // description of the statistic
	Statistic float64 `json:"statistic"`
	Error     float64 `json:"error"`    // half of the 95 % interval, 0 if exact or a count
	Relation  string  `json:"relation"` // of the statistic to the bound: <= or >=
	Bound     float64 `json:"bound"`
	Holds     bool    `json:"holds"`
}

// Record returns the result for JSON.
func (r Result) Record() Record {
	out := Record{r.Claim, r.Case, r.Measure, r.Statistic, r.Error, "<=", r.Bound, r.Holds}
	if r.Above {
		out.Relation = ">="
	}
	return out
}

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
	return fmt.Sprintf("%-21s %-20s %s %-9.4g %-6s %s: %s", r.Claim, value, r.Record().Relation,
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
			err = line.Encode(r.Record())
		} else {
			_, err = fmt.Fprintln(w, r)
		}
		if err != nil {
			return all, failed, err
		}
	}
	return all, failed, nil
}
