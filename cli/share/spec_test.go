package share

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/cli/flags"
	"unmask/fleet"
	"unmask/research/judges"
)

// textFlags returns the flags of a command for texts.
func textFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(flags.Text).Register(f)
	for _, name := range []string{"model", "device", "threads", "out", "schedule"} {
		f.String(name, "", "")
	}
	return f
}

func unchecked(*pflag.FlagSet) error { return nil }

// A worker gets the flags' values, with the places that files have on its machine.
func TestErrand(t *testing.T) {
	dir := t.TempDir()
	here := filepath.Join(dir, "in.safetensors")
	schedule := filepath.Join(dir, "times.json")
	for _, name := range []string{here, schedule} {
		require.NoError(t, os.WriteFile(name, []byte("x"), 0o666))
	}
	f := textFlags()
	require.NoError(t, f.Parse([]string{"--tokens-in", here + ":tokens", "--ban", "1", "--ban=-x",
		"--prompts", "-", "--out", "o", "--schedule", schedule, "--length=8"}))
	list := []unmask.Input{unmask.InputOf(unmask.Request{Prompt: "a"}),
		unmask.InputOf(unmask.Request{Infill: "b[2]"})}
	e, trees, err := errandOf("text", f, "oracle:markov:length=8", "bf16", list)
	require.NoError(t, err)
	require.Len(t, trees, 2)

	spec, err := json.Marshal(e)
	require.NoError(t, err)
	there, err := open(fleet.Source{Spec: spec, Trees: map[string]string{"tokens-in": "/there/in",
		"schedule": "/there/times.json"}})
	require.NoError(t, err)
	require.Equal(t, "bf16", there.Precision)
	require.Equal(t, list, there.Inputs)
	there.Device, there.Threads = "cpu", 3
	g := textFlags()
	require.NoError(t, there.Parse(g, unchecked))
	got := map[string]string{}
	g.Visit(func(f *pflag.Flag) { got[f.Name] = f.Value.String() })
	require.Equal(t, map[string]string{"tokens-in": "/there/in:tokens", "ban": "[1,-x]", "length": "8",
		"schedule": "/there/times.json", "model": "oracle:markov:length=8", "device": "cpu",
		"threads": "3"}, got)

	// A schedule by its name is no file, whatever lies there.
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("cosine", nil, 0o666))
	f = textFlags()
	require.NoError(t, f.Parse([]string{"--schedule=cosine"}))
	_, trees, err = errandOf("text", f, "", "f32", nil)
	require.NoError(t, err)
	require.Empty(t, trees)
	f = textFlags()
	require.NoError(t, f.Parse([]string{"--messages=gone.json"}))
	_, _, err = errandOf("text", f, "", "f32", nil)
	require.ErrorContains(t, err, "gone.json: no such file")
}

// A hub cannot make a worker read files that it did not send.
func TestErrandNamesNoOtherFiles(t *testing.T) {
	for _, e := range []Spec{{Model: "/etc"}, {Measure: judges.Measure{Judge: "/etc/passwd"}},
		{Args: []string{"--tokens-in=/etc/passwd"}}, {Args: []string{"--tokens-in", "/etc/passwd"}},
		{Args: []string{"--prompts=-"}}, {Args: []string{"--schedule=/etc/x.json"}},
		{Args: []string{"--model=/etc", "--messages=/etc/passwd"}}} {
		spec, err := json.Marshal(e)
		require.NoError(t, err)
		there, err := open(fleet.Source{Spec: spec})
		if err == nil {
			err = there.Parse(textFlags(), unchecked)
		}
		require.ErrorContains(t, err, "want a file that the hub sent", "%v", e)
	}
	e, err := open(fleet.Source{Spec: []byte(`{"Args": ["--model=/etc"], "Model": ""}`)})
	require.NoError(t, err)
	f := textFlags()
	require.NoError(t, e.Parse(f, unchecked))
	require.Empty(t, f.Lookup("model").Value.String())
}
