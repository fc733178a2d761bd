package experiments

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"unmask/internal/atomicfile"
	"unmask/internal/durable"
	"unmask/internal/jsonline"
)

// PlanRange is the range of a plan's points that a journal covers: First to First+Count-1 of 0
// to Of-1.
type PlanRange struct {
	durable.Range
	Plan string `json:"plan"` // a hash of all points
}

// NewPlanRange returns the part from first to end-1 of a plan's points.
func NewPlanRange(points []Point, first, end int) *PlanRange {
	hash := sha256.New()
	for _, p := range points {
		line, err := json.Marshal(p)
		if err != nil {
			panic(err) // cannot happen: a Point holds texts and numbers
		}
		hash.Write(append(line, '\n'))
	}
	return &PlanRange{durable.Range{First: first, Count: end - first, Of: len(points)},
		hex.EncodeToString(hash.Sum(nil)[:8])}
}

// String describes the part.
func (p *PlanRange) String() string {
	if p == nil {
		return "a whole plan"
	}
	return fmt.Sprintf("points %d to %d of the %d of plan %s", p.First, p.First+p.Count-1, p.Of,
		p.Plan)
}

// IsJournal reports whether a file begins like the results of a sweep.
func IsJournal(name string) bool {
	data, err := atomicfile.ReadFile(name)
	if err != nil {
		return false
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	var h header
	return jsonline.Strict(line, &h) == nil && h.Settings != nil
}

// shard is one part to be gathered.
type shard struct {
	name string
	header
	results []Result
}

// Gather combines the journals of a plan's parts: file out then has the results of a single sweep,
// in the plan's order. It checks that they have one plan and one model and that each point is there
// once, and that out is none of them. It returns the number of points.
func Gather(out string, names []string) (int, error) {
	if err := atomicfile.CheckPlace(out); err != nil {
		return 0, err
	}
	if err := durable.CheckOutside(out, names); err != nil {
		return 0, err
	}
	var list []shard
	for _, name := range names {
		data, err := atomicfile.ReadFile(name)
		if err != nil {
			return 0, err
		}
		h, results, _, err := parse(data)
		s := shard{name, h, results}
		if err == nil {
			err = s.check(list)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, s)
	}
	err := durable.InOrder(list, "point", func(s shard) (string, *durable.Range) {
		return s.name, &s.Range.Range
	})
	if err != nil {
		return 0, err
	}
	of := list[0].Range.Of
	return of, writeJournal(out, list[0].Settings, func(add func(Result) error) error {
		for _, s := range list {
			for _, r := range s.results {
				if err := add(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// check returns an error for a shard that is incomplete, or of another sweep than those before it.
func (s shard) check(before []shard) error {
	if s.Range == nil {
		return fmt.Errorf("has the results of a whole plan, want those of shards")
	}
	if len(s.results) != s.Range.Count {
		return fmt.Errorf("has %d of %d results, want all: the command that began it goes on",
			len(s.results), s.Range.Count)
	}
	if len(before) == 0 {
		return nil
	}
	first := before[0]
	if err := same(first.Settings, s.Settings); err != nil {
		return fmt.Errorf("is not of the sweep of %s, which %w", first.name, err)
	}
	if a, b := first.Range, s.Range; a.Of != b.Of || a.Plan != b.Plan {
		return fmt.Errorf("is not of the sweep of %s: it has %s there, %s here", first.name, a, b)
	}
	return nil
}

// writeJournal writes the journal of a whole plan; the file appears when it is complete.
func writeJournal(name string, s Settings, each func(add func(Result) error) error) error {
	f, err := atomicfile.Create(name)
	if err != nil {
		return err
	}
	defer f.Discard()
	w := json.NewEncoder(f)
	w.SetEscapeHTML(true) // as json.Marshal
	if err := w.Encode(header{Settings: s}); err != nil {
		return err
	}
	if err := each(func(r Result) error { return w.Encode(r) }); err != nil {
		return err
	}
	return f.Commit()
}
