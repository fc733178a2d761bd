package experiments

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// CSV returns results as a table for pandas and R: a line for each, with the fields of its point,
// its recipe, counts and the least seconds of a batch, and of each metric the value and one
// standard error. What is unknown is empty.
func CSV(results []Result) ([]byte, error) {
	names := MetricNames(results)
	head := []string{"kind", "name", "sampler", "steps", "alpha", "cache", "bits", "with", "seed", "n",
		"batch", "length", "recipe", "full_passes", "head_rows", "batch_seconds"}
	for _, name := range names {
		head = append(head, name, name+"_error")
	}
	number := func(v float64) string {
		if v == 0 || math.IsNaN(v) {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write(head)
	for _, r := range results {
		seconds := 0.0
		if len(r.Seconds) > 0 {
			seconds = slices.Min(r.Seconds)
		}
		line := []string{r.Kind, r.Name(), r.Sampler, fmt.Sprint(r.Steps), number(r.Alpha),
			fmt.Sprint(r.Cache), number(float64(r.Bits)), r.With, fmt.Sprint(r.Seed), fmt.Sprint(r.N),
			fmt.Sprint(r.Batch), number(float64(r.Length)), r.Recipe, number(r.Passes),
			number(r.HeadRows), number(seconds)}
		for _, name := range names {
			value, deviation := "", ""
			if m, ok := r.Metrics[name]; ok {
				value, deviation = fmt.Sprint(m.Value), number(m.Error())
			}
			line = append(line, value, deviation)
		}
		w.Write(line)
	}
	w.Flush()
	return b.Bytes(), w.Error()
}
