package outputs_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/generate"
	"unmask/generate/traces"
	"unmask/runs"
	"unmask/runs/outputs"
)

// collected records its samples, and can be told to fail.
type collected struct {
	samples []outputs.Sample
	fail    error
}

func (c *collected) Put(samples []outputs.Sample) error {
	c.samples = append(c.samples, samples...)
	return c.fail
}

func exact(t *testing.T, r unmask.Request, n, batch int) *outputs.Job {
	m, err := unmask.Load(t.Context(), "oracle:markov:length=8,tokens=3", unmask.Options{})
	require.NoError(t, err)
	return prepare(t, m, r, n, batch)
}

func prepare(t *testing.T, m *unmask.Model, r unmask.Request, n, batch int) *outputs.Job {
	j, err := outputs.Prepare(t.Context(), m, r, nil, n, batch)
	require.NoError(t, err)
	return j
}

func steps(n string) unmask.Request {
	return unmask.Request{Overrides: generate.Overrides{"steps": n}}
}

// A stopped run puts its finished samples, then its unfinished ones.
func TestStopped(t *testing.T) {
	j := exact(t, steps("4"), 5, 2)
	for _, behind := range []bool{false, true} {
		made := 0
		var c collected
		err := outputs.MakeSamples(t.Context(), j, []runs.Span{{N: j.Run.N}}, &c, outputs.Hooks{
			Behind: behind, Step: func(*generate.Step) error { made++; return nil },
			Stop: func() bool { return made == 6 }})
		require.ErrorIs(t, err, outputs.ErrStopped)
		require.EqualError(t, err, "interrupted after step 6 of 12")
		require.Len(t, c.samples, 4)
		for i, s := range c.samples {
			require.Equal(t, i, s.Index)
			require.Equal(t, i >= 2, s.Unfinished)
		}
	}
}

// An output's error ends the run and is returned, also from another goroutine.
func TestOutputFails(t *testing.T) {
	j := exact(t, steps("8"), 50, 1)
	full := errors.New("the disk is full")
	for _, behind := range []bool{false, true} {
		c := collected{fail: full}
		err := outputs.MakeSamples(context.Background(), j, []runs.Span{{N: j.Run.N}}, &c,
			outputs.Hooks{Behind: behind})
		require.ErrorIs(t, err, full)
		require.Len(t, c.samples, 1)
	}
}

// With nothing masked at the start the sample is finished without a step.
func TestNothingToDo(t *testing.T) {
	j := exact(t, unmask.Request{Tokens: []int32{0, 1, 2, 0, 1, 2, 0, 1}}, 1, 0)
	var c collected
	require.NoError(t, outputs.MakeSamples(t.Context(), j, []runs.Span{{N: j.Run.N}}, &c,
		outputs.Hooks{}))
	require.Len(t, c.samples, 1)
	require.Equal(t, j.Run.Known, c.samples[0].Tokens)
	require.Zero(t, c.samples[0].Steps)
}

// A stopped file of lines continues to the bytes of an uninterrupted one.
func TestLinesGoOn(t *testing.T) {
	j := exact(t, steps("4"), 7, 3)
	name := filepath.Join(t.TempDir(), "out.jsonl")
	run := func(name string, stop int) error {
		texts, err := outputs.NewTexts(outputs.TextOptions{Name: name})
		require.NoError(t, err)
		s, err := j.Settings("f32")
		require.NoError(t, err)
		rest, err := texts.Begin(j, s)
		require.NoError(t, err)
		made := 0
		err = outputs.MakeSamples(t.Context(), j, rest, texts, outputs.Hooks{
			Step: func(*generate.Step) error { made++; return nil },
			Stop: func() bool { return made == stop }})
		require.NoError(t, texts.Close(err))
		return err
	}
	require.ErrorIs(t, run(name, 6), outputs.ErrStopped)
	require.Equal(t, 3, strings.Count(read(t, name), "\n"))
	require.NoError(t, run(name, 0))
	whole := filepath.Join(t.TempDir(), "whole.jsonl")
	require.NoError(t, run(whole, 0))
	require.Equal(t, read(t, whole), read(t, name))
	require.NotContains(t, read(t, name), "seconds")
}

// A file has its texts by index, whatever the order in which they finish, also after a stop.
func TestTextsInAnyOrder(t *testing.T) {
	j := exact(t, steps("2"), 3, 0)
	var c collected
	require.NoError(t, outputs.MakeSamples(t.Context(), j, []runs.Span{{N: 3}}, &c, outputs.Hooks{}))
	wrote := func(as string, ran error, order ...int) string {
		name := filepath.Join(t.TempDir(), "out.fasta")
		texts, err := outputs.NewTexts(outputs.TextOptions{Name: name})
		require.NoError(t, err)
		_, err = texts.Begin(j, runs.Settings{})
		require.NoError(t, err)
		for _, i := range order {
			require.NoError(t, texts.Put(c.samples[i:i+1]))
		}
		require.NoError(t, texts.Close(ran))
		names := regexp.MustCompile(`(?m)^>sample_\d+`).FindAllString(read(t, filepath.Join(
			filepath.Dir(name), as)), -1)
		return strings.Join(names, "")
	}
	require.Equal(t, ">sample_0>sample_1>sample_2", wrote("out.fasta", nil, 2, 0, 1))
	require.Equal(t, ">sample_0>sample_2", wrote("out.part.fasta", outputs.ErrStopped, 2, 0))
}

func read(t *testing.T, name string) string {
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

// Pictures are written in order, whatever the order in which they finish.
func TestPicturesInAnyOrder(t *testing.T) {
	m, err := unmask.LoadFS(demo.Image(), "demo", unmask.Options{})
	require.NoError(t, err)
	const n = 5
	j := prepare(t, m, steps("2"), n, 0)
	var made []outputs.Sample
	for s, err := range generate.Samples(t.Context(), m.Denoiser, j.Run) {
		require.NoError(t, err)
		made = append(made, outputs.Sample{Index: s.Index, Tokens: slices.Clone(s.Tokens),
			Opening: &traces.Opening{}})
	}
	var manifests, lines []string
	for range 2 {
		rand.Shuffle(n, func(i, j int) { made[i], made[j] = made[j], made[i] })
		dir := filepath.Join(t.TempDir(), "out")
		s, err := j.Settings("f32")
		require.NoError(t, err)
		var b bytes.Buffer
		p, err := outputs.OpenPictures(j, outputs.PictureOptions{Dir: dir, Settings: s, Lines: &b})
		require.NoError(t, err)
		require.Len(t, p.Missing(), 1)
		for _, s := range made {
			require.NoError(t, p.Put([]outputs.Sample{s}))
		}
		written, err := p.Close(nil)
		require.NoError(t, err)
		require.Equal(t, []string{dir}, written)
		require.Equal(t, n, p.Written())
		manifests = append(manifests, read(t, filepath.Join(dir, "manifest.jsonl")))
		lines = append(lines, strings.ReplaceAll(b.String(), dir, ""))
	}
	require.Equal(t, manifests[0], manifests[1])
	require.Equal(t, lines[0], lines[1])
	require.Equal(t, n, strings.Count(lines[0], "\n"))
}

// A stopped run that is cancelled during an endless step puts the same samples.
func TestStoppedInAStep(t *testing.T) {
	j := exact(t, steps("4"), 3, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made, asked := 0, false
	var c collected
	err := outputs.MakeSamples(ctx, j, []runs.Span{{N: j.Run.N}}, &c, outputs.Hooks{
		Step: func(*generate.Step) error {
			if made++; made == 2 {
				cancel()
			}
			return nil
		},
		Stop: func() bool { before := asked; asked = made == 2; return before }})
	require.EqualError(t, err, "interrupted after step 2 of 4")
	require.Len(t, c.samples, 3)
	for _, s := range c.samples {
		require.True(t, s.Unfinished)
		require.Len(t, s.Opening.Steps, 8)
	}
}
