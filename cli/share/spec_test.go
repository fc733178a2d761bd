package share

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/fleet"
	"unmask/generate"
	"unmask/research/judges"
)

// A worker gets the request, with the places that files have on its machine.
func TestSpec(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"in.png", "hole.png"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o666))
	}
	list := []unmask.Input{unmask.InputOf(unmask.Request{Class: "a"}),
		unmask.InputOf(unmask.Request{Class: "b"})}
	r := unmask.Request{Negative: "c", Overrides: generate.Overrides{"steps": "3"},
		Image: &unmask.ImageInput{File: filepath.Join(dir, "in.png"), Paste: true,
			MaskFile: filepath.Join(dir, "hole.png")}}
	e := Spec{Kind: "image", Request: &r, Inputs: list, Model: "oracle:markov:length=8",
		Precision: "bf16"}
	trees, err := e.fileTrees()
	require.NoError(t, err)
	require.Len(t, trees, 2)
	spec, err := json.Marshal(e)
	require.NoError(t, err)
	there, err := readSpec(fleet.Source{Spec: spec, Trees: map[string]string{"image": "/there/in",
		"mask": "/there/hole"}})
	require.NoError(t, err)
	require.Equal(t, "bf16", there.Precision)
	require.Equal(t, list, there.Inputs)
	want := r
	want.Image = &unmask.ImageInput{File: "/there/in", MaskFile: "/there/hole", Paste: true}
	require.Equal(t, &want, there.Request)

	e.Request.Image.MaskFile = filepath.Join(dir, "gone.png")
	_, err = e.fileTrees()
	require.ErrorContains(t, err, "gone.png: no such file")
}

// A hub cannot make a worker read files that it did not send.
func TestSpecNamesNoOtherFiles(t *testing.T) {
	for _, e := range []Spec{{Model: "/etc"}, {Measure: judges.Measure{Judge: "/etc/passwd"}},
		{Request: &unmask.Request{Image: &unmask.ImageInput{File: "/etc/passwd"}}},
		{Request: &unmask.Request{Image: &unmask.ImageInput{MaskFile: "demo"}}},
		{Inputs: []unmask.Input{unmask.InputOf(unmask.Request{
			Image: &unmask.ImageInput{File: "/etc/passwd"}})}}} {
		spec, err := json.Marshal(e)
		require.NoError(t, err)
		_, err = readSpec(fleet.Source{Spec: spec})
		require.ErrorContains(t, err, "want a file that the hub sent", "%v", e)
	}
}
