package theory

import "fmt"

// Record is a Result as JSON.
type Record struct {
	Claim     string  `json:"claim"`
	Case      string  `json:"case"`
	Measure   string  `json:"measure"` // what the statistic is
	Statistic float64 `json:"statistic"`
	Error     float64 `json:"error"`    // half of the 95 % interval, 0 where exact or a count
	Relation  string  `json:"relation"` // of the statistic to the bound, <= or >=
	Bound     float64 `json:"bound"`
	Holds     bool    `json:"holds"`
}

// Record returns the result as JSON has it.
func (r Result) Record() Record {
	out := Record{r.Claim, r.Case, r.Measure, r.Statistic, r.Error, "<=", r.Bound, r.Holds}
	if r.Above {
		out.Relation = ">="
	}
	return out
}

// String returns the result as a row of a table.
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
