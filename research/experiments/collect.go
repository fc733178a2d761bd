package experiments

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"unmask/internal/atomicfile"
	"unmask/internal/jsonline"
	"unmask/runs"
)

// PointStore keeps the results of a plan's points in a journal, in any order of arrival: output i
// is the result of point i. Two results are equal if all but their times is.
type PointStore struct {
	journal *Journal
	kind    string
	points  []Point
}

// NewPointStore returns a Collected for the points of a kind, text or image.
func NewPointStore(j *Journal, kind string, points []Point) *PointStore {
	return &PointStore{j, kind, points}
}

// Pending returns which of the first n points have no result.
func (c *PointStore) Pending(n int) (list []int) {
	for i := range n {
		if _, ok := c.journal.Find(c.kind, c.points[i]); !ok {
			list = append(list, i)
		}
	}
	return list
}

// Put appends the result of point i, as JSON.
func (c *PointStore) Put(i int, _ uint64, data []byte) error {
	var r Result
	err := jsonline.DecodeStrict(data, &r)
	if err == nil {
		err = r.checkRanges()
	}
	if err == nil && (r.Kind != c.kind || r.Point != c.points[i]) {
		err = fmt.Errorf("is of %s", r.Point)
	}
	if err != nil {
		return fmt.Errorf("result of %s: %w", c.points[i], err)
	}
	return c.journal.Append(r)
}

// Sort puts the results into the order of the points, with results of other points first.
func (c *PointStore) Sort() error {
	place := map[Point]int{}
	for i, p := range c.points {
		place[p] = i + 1
	}
	sorted := slices.Clone(c.journal.Results)
	slices.SortStableFunc(sorted, func(a, b Result) int { return place[a.Point] - place[b.Point] })
	if slices.EqualFunc(sorted, c.journal.Results, func(a, b Result) bool {
		return a.Point == b.Point
	}) {
		return nil
	}
	return c.journal.replaceResults(sorted)
}

// Digest returns a hash of the result of point i without times and machine; ok is false if there is
// none.
func (c *PointStore) Digest(i int) (digest string, ok bool) {
	r, ok := c.journal.Find(c.kind, c.points[i])
	return digestOf(r), ok
}

// ResultDigest returns a hash of a JSON result without its times and its machine.
func ResultDigest(data []byte) string {
	var r Result
	if jsonline.DecodeStrict(data, &r) != nil {
		return "none"
	}
	return digestOf(r)
}

// digestOf returns a hash of a result without what differs from machine to machine.
func digestOf(r Result) string {
	r.Seconds = nil
	r.Machine = ""
	data, err := json.Marshal(r)
	if err != nil { // a metric is NaN
		return "none"
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// MeasurePoints measures points first to first+count-1 and passes each result to put as JSON.
func MeasurePoints(ctx context.Context, t Task, points []Point, first, count int,
	put func(i int, seed uint64, result []byte) error) error {
	for i := first; i < first+count; i++ {
		r, err := MeasurePoint(ctx, t, points[i], func(float64) bool { return ctx.Err() == nil })
		if err == ErrStopped {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", points[i], err)
		}
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := put(i, points[i].Seed, data); err != nil {
			return err
		}
	}
	return nil
}

// replaceResults replaces the journal's results.
func (j *Journal) replaceResults(results []Result) error {
	if err := j.log.Close(); err != nil {
		return err
	}
	if err := writeJournal(j.name, j.settings, results); err != nil {
		return err
	}
	var err error
	j.log, _, err = runs.OpenLog(j.name, nil)
	j.Results = results
	return err
}

// writeJournal writes a journal; the file appears when it is complete.
func writeJournal(name string, s Settings, results []Result) error {
	f, err := atomicfile.Create(name)
	if err != nil {
		return err
	}
	defer f.Discard()
	w := json.NewEncoder(f)
	w.SetEscapeHTML(true) // as json.Marshal
	if err := w.Encode(header{s}); err != nil {
		return err
	}
	for _, r := range results {
		if err := w.Encode(r); err != nil {
			return err
		}
	}
	return f.Commit()
}
