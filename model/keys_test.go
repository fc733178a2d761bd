package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A key that the authors' program never reads gets a note where a file sets it, and none for null
// and false.
func TestUnreadKeys(t *testing.T) {
	for value, set := range map[string]bool{"true": true, "0": true, `"x"`: true, "null": false,
		"false": false} {
		keys := map[string]json.RawMessage{"causal": json.RawMessage(value)}
		note := unreadKeys(keys, "model", []string{"causal", "other"})
		if !set {
			require.Empty(t, note, value)
			continue
		}
		require.Equal(t, "config.json: model.causal: ignored, as in the authors' program, which never "+
			"reads it", note)
	}
}

// Each field of a filter alone makes it change something, but for the values that mean none.
func TestNeutralFilters(t *testing.T) {
	for _, f := range []Filter{{}, {Temperature: 1}, {TopP: 1}} {
		require.True(t, f.IsNeutral(), "%+v", f)
	}
	for _, f := range []Filter{{Temperature: 0.5}, {Temperature: 2}, {TopK: 1}, {TopP: 0.5},
		{Ban: []int32{1}}, {Bias: map[int32]float32{1: 1}}, {Adjust: func(int32, []float32) {}}} {
		require.False(t, f.IsNeutral(), "%+v", f)
		f.Adjust = nil
		require.Equal(t, f.IsNeutral(), f.Equal(&Filter{}), "%+v", f)
		require.True(t, f.Equal(&f))
	}
}

// What a format left out is filled in, and what it has stays.
func TestLoadedIsCompleted(t *testing.T) {
	l := &Loaded{}
	require.NoError(t, l.complete(&Source{}, Options{}))
	require.Equal(t, KindTokens, l.Kind)
	l = &Loaded{Kind: KindText, Recipe: "random", AnswerLength: 3}
	src := &Source{Config: []byte(`{"unmask_answer_length": 5}`)}
	require.NoError(t, l.complete(src, Options{}))
	require.Equal(t, &Loaded{Kind: KindText, Recipe: "random", AnswerLength: 5}, l)
	src.Config = []byte(`{"unmask_answer_length": -1}`)
	require.ErrorContains(t, l.complete(src, Options{}), "unmask_answer_length is -1, want 1 or more")
}

// Pictures without a codec of their own get that of a registered format.
func TestCodecOfAnotherFormat(t *testing.T) {
	defer func(before []*CodecFormat) { codecs = before }(codecs)
	codecs = []*CodecFormat{{Match: func(*Source) bool { return true }}}
	for kind, want := range map[Kind]bool{KindImage: true, KindText: false, "": false} {
		l := &Loaded{Kind: kind}
		require.NoError(t, l.complete(&Source{}, Options{}))
		require.Equal(t, want, l.Codec != nil, kind)
	}
	l := &Loaded{Kind: KindImage, Codec: func() (Codec, error) { return nil, os.ErrExist }}
	require.NoError(t, l.complete(&Source{}, Options{}))
	_, err := l.Codec()
	require.ErrorIs(t, err, os.ErrExist)
}

// The companion of a repository is that of the folder which it lacks.
func TestCompanions(t *testing.T) {
	defer func(before []Format) { formats = before }(formats)
	Register(Format{Companions: map[string]map[string]string{"org/net": {"codec": "org/codec"}}})
	require.Equal(t, "org/codec", Companion("org/net", "codec"))
	require.Empty(t, Companion("org/net", "other"))
	require.Empty(t, Companion("org/other", "codec"))
}

// A folder without config.json is a checkpoint if it has one file of weights.
func TestFoldersOfCheckpoints(t *testing.T) {
	dir := t.TempDir()
	_, ok, err := openCheckpoint(dir)
	require.NoError(t, err)
	require.False(t, ok, "an empty folder")
	path := func(name string) string { return filepath.Join(dir, "data", "weights", name) }
	require.NoError(t, os.MkdirAll(filepath.Dir(path("x")), 0o777))
	require.NoError(t, os.WriteFile(path("esmc_a.pth"), []byte("x"), 0o666))
	_, ok, err = openCheckpoint(dir)
	require.True(t, ok)
	require.ErrorContains(t, err, "not a PyTorch checkpoint")
	require.NoError(t, os.WriteFile(path("esmc_b.pth"), []byte("x"), 0o666))
	_, ok, err = openCheckpoint(dir)
	require.True(t, ok)
	require.ErrorContains(t, err, "there are 2 files ")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o666))
	_, ok, err = openCheckpoint(dir)
	require.NoError(t, err)
	require.False(t, ok, "a folder with config.json")
}
