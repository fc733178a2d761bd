package experiments

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
)

// chain returns a text task whose model and judge are the same exact Markov chain.
func chain() Task {
	m := exact.Markov(16, 8, 0.6, 2, 1)
	return TextTask(exact.NewDenoiser(m), exact.Judge{Model: m}, nil)
}

var chainPoints = Plan{Samplers: []string{"random", "u-moment"}, Steps: []int{2, 4},
	Alpha: []float64{3}, Cache: []int{0, 1}, Seeds: []uint64{0}, N: 20, Batch: 10}.Points()

// A sweep that is stopped after any step, or whose file is cut at any byte, ends with the results
// of an uninterrupted one, except times.
func TestSweepGoesOn(t *testing.T) {
	settings := Settings{"model": "chain"}
	run := func(name string, limit int) ([]Result, error) {
		j, err := OpenJournal(name, settings)
		require.NoError(t, err)
		defer j.Close()
		err = Sweep(t.Context(), j, chain(), chainPoints,
			func(float64) bool { limit--; return limit >= 0 })
		results := append([]Result(nil), j.Results...)
		for i := range results {
			require.Len(t, results[i].Seconds, 2)
			results[i].Seconds = nil
		}
		return results, err
	}
	dir := t.TempDir()
	want, err := run(filepath.Join(dir, "whole"), math.MaxInt)
	require.NoError(t, err)
	require.Len(t, want, len(chainPoints))

	for _, limit := range []int{0, 1, 3, 7, 13} {
		name := filepath.Join(dir, "stopped")
		for tries := 0; ; tries++ {
			got, err := run(name, limit+tries)
			if err == nil {
				require.Equal(t, want, got)
				break
			}
			require.ErrorIs(t, err, ErrStopped)
		}
		require.NoError(t, os.Remove(name))
	}

	whole, err := os.ReadFile(filepath.Join(dir, "whole"))
	require.NoError(t, err)
	for cut := 0; cut < len(whole); cut += 97 {
		name := filepath.Join(dir, "cut")
		require.NoError(t, os.WriteFile(name, whole[:cut], 0o644))
		j, err := OpenJournal(name, settings)
		require.NoError(t, err)
		require.Len(t, j.Results, max(0, bytes.Count(whole[:cut], []byte("\n"))-1))
		require.NoError(t, j.Close())
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "half"), whole[:len(whole)/2], 0o644))
	got, err := run(filepath.Join(dir, "half"), math.MaxInt)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestJournalRefuses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results-text.jsonl")
	j, err := OpenJournal(name, Settings{"model": "a", "threads": "2"})
	require.NoError(t, err)
	_, err = OpenJournal(name, Settings{"model": "a", "threads": "2"})
	require.ErrorContains(t, err, "another process is writing it")
	require.NoError(t, j.Close())
	_, err = OpenJournal(name, Settings{"model": "b", "threads": "2"})
	require.ErrorContains(t, err, `was begun with model "a", found "b"`)
	_, err = OpenJournal(name, Settings{"model": "a"})
	require.ErrorContains(t, err, `was begun with threads "2", found ""`)
	_, err = OpenJournal(filepath.Dir(name), nil)
	require.ErrorContains(t, err, "is a directory, want a file")

	for text, want := range map[string]string{
		"{}\n":                               "line 1 has no settings",
		"samples\n":                          "line 1 has no settings",
		"{\"settings\":{}}\n{\"a\":1}\n":     "line 2: unknown field",
		"{\"settings\":{}}\n\n{}\n":          "line 2 is blank, want a result",
		resultLine(0):                        "line 2: steps is 0, want at least 1",
		resultLine(-5):                       "line 2: steps is -5, want at least 1",
		"{\"settings\":{}}\n{} {}\n":         "line 2: more than one value",
		changed(`"sampler":"random",`, ``):   "line 2: sampler is missing, want a line of unmask sweep",
		changed(`"random"`, `""`):            `line 2: sampler is "", want a name`,
		changed(`"random"`, `3`):             "line 2: sampler is a number, want a string",
		changed(`"seed":0,`, ``):             "line 2: seed is missing",
		changed(`"seed":0`, `"seed":"0"`):    "line 2: seed is a string, want 0 to 2^64-1",
		changed(`{"value":2}`, `{}`):         "line 2: metrics: value is missing, want a number",
		changed(`{"value":2}`, `null`):       "line 2: metrics: value is missing, want a number",
		changed(`{"value":2}`, `2`):          "line 2: metrics: the value is a number, want an object",
		changed(`"value":2`, `"value":"2"`):  "line 2: metrics: value is a string, want a number",
		changed(`"value":2`, `"valve":2`):    `line 2: metrics: unknown field "valve"`,
		changed(`[1]`, `[1],"head_rows":-1`): "line 2: head_rows is -1, want at least 0",
		"":                                   "line 1 has no settings",
		"torn":                               "line 1 has no settings",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		_, _, _, err := ReadJournal(name)
		require.ErrorContains(t, err, want, text)
		if strings.Contains(text, "\n") {
			require.ErrorContains(t, CheckJournals(filepath.Dir(name), "text"), want, text)
		} else {
			require.NoError(t, CheckJournals(filepath.Dir(name), "text"), text)
		}
		if text == "" {
			continue // a new file
		}
		_, err = OpenJournal(name, Settings{})
		require.ErrorContains(t, err, want, text)
		after, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, text, string(after), "a foreign file stays as it is")
	}
}

// resultLine returns a journal with one result.
func resultLine(steps int) string {
	return fmt.Sprintf(`{"settings":{}}
{"kind":"text","sampler":"random","steps":%d,"seed":0,"n":2,"batch":1,"metrics":{"perplexity":{"value":2}},"batch_seconds":[1]}
`, steps)
}

// changed returns a journal with a part of its result replaced.
func changed(part, with string) string {
	return strings.Replace(resultLine(4), part, with, 1)
}

// An incomplete or blank end of a journal is dropped, and Dropped says so.
func TestJournalDropsACutLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.jsonl")
	for _, end := range []string{"\n", " \n\n", "\r\n", `{"kind":"te`, "\n{"} {
		require.NoError(t, os.WriteFile(name, []byte(resultLine(4)+end), 0o644))
		_, results, dropped, err := ReadJournal(name)
		require.NoError(t, err)
		require.Len(t, results, 1)
		require.Equal(t, len(end), dropped)
		j, err := OpenJournal(name, Settings{})
		require.NoError(t, err)
		require.Equal(t, len(end), j.Dropped)
		require.NoError(t, j.Append(j.Results[0]))
		require.NoError(t, j.Close())
		_, results, dropped, err = ReadJournal(name)
		require.NoError(t, err)
		require.Len(t, results, 2)
		require.Zero(t, dropped)
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(resultLine(0)))
	f.Add([]byte(resultLine(4) + "\n"))
	f.Add([]byte("{\"settings\":{\"model\":\"a\"}}\n{\"kind\":\"text\",\"sampler\":\"random\",\"steps\":2,\"seed\":0,\"n\":2,\"batch\":1,\"metrics\":{\"perplexity\":{\"value\":2,\"without\":[1]}},\"batch_seconds\":[1]}\n"))
	f.Add([]byte("{\"settings\":{}}\ntorn"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "results.jsonl")
		require.NoError(t, os.WriteFile(name, data, 0o644))
		_, results, dropped, err := ReadJournal(name)
		if err == nil && (dropped < 0 || dropped > len(data)) {
			t.Fatal("beyond the file")
		}
		for _, c := range Charts(results, "") {
			_, _ = c.SVG()
		}
		if j, err := OpenJournal(name, Settings{"model": "a"}); err == nil {
			require.NoError(t, j.Close())
		}
	})
}

// On the exact chain, with one position per step and tokens from p, perplexity is the chain's.
func TestExactPerplexity(t *testing.T) {
	task := chain()
	p := Point{Sampler: "random", Steps: 16, N: 400, Batch: 100}
	r, err := MeasurePoint(t.Context(), task, p, nil)
	require.NoError(t, err)
	m := exact.Judge{Model: task.Model.(*exact.Denoiser).Model}
	entropy, _ := m.Entropy()
	want := math.Exp(entropy / 16)
	got := r.Metrics["perplexity"]
	require.InDelta(t, want, got.Value, 4*got.Error())
	require.Less(t, got.Error(), 0.05*want)
	require.Len(t, r.Seconds, 4)
}

// Tune finds settings within the time, best first, and a frontier.
func TestTune(t *testing.T) {
	all, err := Tune(t.Context(), chain(), Tuning{Budget: 1, N: 16, Batch: 4}, nil)
	require.NoError(t, err)
	front := Frontier(all)
	require.NotEmpty(t, front)
	for i, s := range front {
		require.LessOrEqual(t, s.Seconds, 1.0)
		require.Positive(t, s.Point.Steps)
		if i > 0 {
			require.Less(t, s.Quality, front[i-1].Quality)
			require.GreaterOrEqual(t, s.Seconds, front[i-1].Seconds)
		}
	}
	best := front[len(front)-1]
	require.Equal(t, all[0].Quality, best.Quality)
	command, err := best.Command("text", "demo", chain().Model.Spec(), generate.Recipe{})
	require.NoError(t, err)
	require.Contains(t, command, "unmask text --model demo --sampler ")
	_, err = Tune(t.Context(), chain(), Tuning{Budget: 1e-12, N: 16, Batch: 4}, nil)
	require.ErrorContains(t, err, "on this machine")
}

// Begin announces how many settings there are and how long they take.
func TestTuneAnnounces(t *testing.T) {
	settings, tried := 0, 0
	o := Tuning{Budget: 1, N: 16, Batch: 4, Begin: func(n int, about time.Duration) {
		require.Positive(t, about)
		settings = n
	}}
	_, err := Tune(t.Context(), chain(), o, func(_, total int, _ Point) bool {
		if tried++; tried == 1 {
			require.Equal(t, settings, total)
		}
		return tried < 3
	})
	require.NoError(t, err)
	require.Equal(t, 32.0, samplesOfRounds(8, 64, 66)) // 8 samples in each of four rounds
	require.Equal(t, 8.0, samplesOfRounds(8, 64, 1))
}

// A setting's command line has its whole recipe, quoted for a shell.
func TestCommand(t *testing.T) {
	s := Setting{Point: Point{Sampler: "hybrid", Alpha: 3, Steps: 8, Seed: 7, Batch: 4, Length: 16,
		Extra: "top-p=0.9 ban=1,2 bias=3=1,4=-2"}}
	spec := chain().Model.Spec()
	command, err := s.Command("text", "it's here", spec, generate.Defaults(spec))
	require.NoError(t, err)
	require.Equal(t, `unmask text --model 'it'\''s here' --sampler 'hybrid(halton,u-moment(alpha=3))' --schedule uniform --steps 8 --cache 0`+
		` --top-p 0.9 --ban 1,2 --bias 3=1 --bias 4=-2 --seed 7 --batch 4 --length 16`, command)
	s.Point = Point{Sampler: "moment", Cache: 1, Steps: 2, Batch: 1}
	command, err = s.Command("image", "demo", model.Spec{Shape: []int{8, 8}}, generate.Recipe{})
	require.NoError(t, err)
	require.Equal(t, "unmask image --model demo --sampler moment --schedule cosine --steps 2 "+
		"--cache 1 --seed 0 --batch 1", command)
	own, err := generate.ParseRecipe("entropy temperature=0.2 top-p=0.95 cache=1")
	require.NoError(t, err)
	s.Point = Point{Sampler: "vanilla", Steps: 2, Batch: 1}
	command, err = s.Command("text", "dream", spec, own)
	require.NoError(t, err)
	require.Equal(t, "unmask text --model dream --sampler vanilla --steps 2 --cache 0 --temperature 1 "+
		"--top-p 1 --seed 0 --batch 1", command)
}

// Points that cannot run are refused before any is measured.
func TestImpossibleCells(t *testing.T) {
	j, err := OpenJournal(filepath.Join(t.TempDir(), "results.jsonl"), Settings{"model": "chain"})
	require.NoError(t, err)
	defer j.Close()
	points := Plan{Samplers: []string{"random"}, Steps: []int{4, 99, 100}, Alpha: []float64{6},
		Cache: []int{0}, Seeds: []uint64{0}, N: 4, Batch: 2}.Points()
	err = Sweep(t.Context(), j, chain(), points, nil)
	require.EqualError(t, err, "random, 99 steps, seed 0: generate: steps is 99, want 1 to 16: "+
		"each opens one position at least; 2 of 3 points cannot run")
	require.Empty(t, j.Results)
}
