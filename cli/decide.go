package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"unmask/cli/terminal"
	"unmask/research/experiments"
)

// decideAll measures further seeds for undecided claims, the claim that needs the least time first,
// until all are decided, none can be, or the time of --decide is over.
func (f *reproduceFlags) decideAll(ctx context.Context, all []*measuring,
	size experiments.Size) error {
	until := time.Now().Add(f.decide)
	short, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		var results []experiments.Result
		for _, m := range all {
			results = append(results, f.results(m, size)...)
		}
		next, ok := experiments.Decide(results, size)
		if !ok {
			terminal.Say("no claim is left that more samples would decide")
			return f.Hub.End()
		}
		left := time.Until(until)
		if left <= 0 {
			terminal.Say("the time of --decide is over: the same command goes on")
			return f.Hub.End()
		}
		terminal.Say("undecided: %s: %s, about %s of generation, %s left", next.Claim,
			terminal.Count(len(next.Points), "point"),
			time.Duration(next.Cost*float64(time.Second)).Round(time.Second), left.Round(time.Second))
		at := slices.IndexFunc(all, func(m *measuring) bool { return m.task.Kind() == next.Kind })
		err := all[at].measure(short, next.Points, until)
		if errors.Is(err, context.DeadlineExceeded) {
			continue // the loop says so
		}
		if err != nil {
			return err
		}
	}
}
