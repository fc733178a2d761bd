package unmask_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/samplers"
)

var update = flag.Bool("update", false, "rewrite the golden files with what this build gives")

// goldenCaches maps samplers to the intermediate stages of their steps.
var goldenCaches = map[string]int{"random": 1, "vanilla": 0, "maskgit": 0, "moment": 1,
	"u-moment": 2, "temp": 0, "halton": 1, "hybrid": 1}

const goldenLength, goldenSteps, goldenCount = 16, 5, 3

// goldenRun is the run of a golden text.
func goldenRun(sampler string, cache, batch int) unmask.Run {
	r := unmask.Request{Seed: 20, Length: goldenLength,
		Overrides: evenly(sampler, cache, goldenSteps)}
	return unmask.Run{Request: r, N: goldenCount, Batch: batch}
}

// evenly returns the settings of a run with the schedule uniform, where a schedule has an effect.
func evenly(sampler string, cache, steps int) unmask.Overrides {
	o := unmask.Overrides{"sampler": sampler, "cache": strconv.Itoa(cache),
		"steps": strconv.Itoa(steps)}
	if s, err := samplers.Parse(sampler); err == nil && samplers.Scheduled(s) {
		o["schedule"] = "uniform"
	}
	return o
}

// The same seed gives the same tokens, frozen in a file, for every sampler on the embedded model,
// any batch size and any number of threads.
func TestGoldenText(t *testing.T) {
	path := filepath.Join("testdata", "golden", "text.json")
	golden := map[string][][]int32{}
	if !*update {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &golden))
	}
	for _, how := range []struct{ batch, threads int }{{1, 1}, {2, 2}, {32, 3}} {
		m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Threads: how.threads})
		require.NoError(t, err)
		for name, cache := range goldenCaches {
			got := tokens(t, m, goldenRun(name, cache, how.batch))
			if *update && how.batch == 1 {
				golden[name] = got
			}
			require.Equalf(t, golden[name], got, "%s, batch %d, %d threads", name, how.batch, how.threads)
		}
	}
	if *update {
		data, err := json.Marshal(golden)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, append(data, '\n'), 0o666))
	}
}

// A run that begins at a later sequence gives the bytes of that sequence.
func TestSequencesDependOnSeedAndIndexAlone(t *testing.T) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	run := unmask.Run{N: 5, Batch: 2, Request: unmask.Request{Seed: 9, Length: 24,
		Overrides: unmask.Overrides{"sampler": "moment", "cache": "1", "steps": "6"}}}
	all := tokens(t, m, run)
	run.Index, run.N = 3, 2
	require.Equal(t, all[3:], tokens(t, m, run))
}

func tokens(t *testing.T, m *unmask.Model, run unmask.Run) [][]int32 {
	var out [][]int32
	for step, err := range unmask.Generate(context.Background(), m, run) {
		require.NoError(t, err)
		if step.Done {
			for _, s := range step.Sequences {
				out = append(out, append([]int32(nil), s.Tokens...))
			}
		}
	}
	return out
}
