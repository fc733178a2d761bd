package judges_test

import (
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/media/images"
	"unmask/research/judges"
)

// counting is a network of pictures 8 pixels wide that counts what it computes.
type counting struct{ n int }

func (c *counting) Width() int { return 2 }

func (c *counting) CheckSize(p *images.Image) error {
	if p.Width != 8 {
		return os.ErrInvalid
	}
	return nil
}

func (c *counting) Features(_ context.Context, list []*images.Image,
	visit func(i int, features, logits []float32) error) error {
	for i := range list {
		c.n++
		if err := visit(i, []float32{float32(c.n % 3), float32(c.n % 5)}, nil); err != nil {
			return err
		}
	}
	return nil
}

// folder writes n pictures of this width, 0.png and so on, and returns their folder.
func folder(t *testing.T, n, width int) string {
	dir := t.TempDir()
	for i := range n {
		f, err := os.Create(filepath.Join(dir, string(rune('0'+i))+".png"))
		require.NoError(t, err)
		require.NoError(t, png.Encode(f, image.NewNRGBA(image.Rect(0, 0, width, 8))))
		require.NoError(t, f.Close())
	}
	return dir
}

// classed writes pictures into folders of their classes and returns the folder of these.
func classed(t *testing.T, names ...string) string {
	dir := folder(t, len(names), 8)
	for _, name := range names {
		to := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
		require.NoError(t, os.Rename(filepath.Join(dir, filepath.Base(to)), to))
	}
	return dir
}

// Pictures that cannot be measured are refused before the network computes any, of either folder.
func TestFolderIsCheckedFirst(t *testing.T) {
	good, damaged, wide := folder(t, 6, 8), folder(t, 6, 8), folder(t, 2, 9)
	data, err := os.ReadFile(filepath.Join(damaged, "4.png"))
	require.NoError(t, err)
	for _, name := range []string{"4.png", "5.png"} {
		require.NoError(t, os.WriteFile(filepath.Join(damaged, name), data[:len(data)-20], 0o600))
	}
	lone := folder(t, 1, 8)
	hours := classed(t, "day/0.png", "day/1.png", "night/2.png", "night/3.png")
	one := classed(t, "day/0.png", "day/1.png", "night/2.png")
	other := classed(t, "day/0.png", "day/1.png", "noon/2.png")
	cut := filepath.Join(damaged, "4.png") + ": a damaged PNG: png: invalid format: unexpected EOF"
	for _, c := range []struct {
		dir, reference string
		perClass       bool
		want           string
	}{
		{damaged, good, false, cut},
		{good, damaged, false, cut},
		{wide, good, false, filepath.Join(wide, "0.png") + ": invalid argument"},
		{lone, good, false, lone + ": pictures is 1, want at least 2"},
		{good, lone, false, lone + ": pictures is 1, want at least 2"},
		{one, hours, true, `class "night": pictures is 1, want at least 2`},
		{hours, one, true, one + `: class "night": pictures is 1, want at least 2`},
		{other, hours, true, `unknown class "noon", want one of day, night`},
	} {
		x := &counting{}
		_, err := judges.EvalFolder(t.Context(), c.dir, x, judges.Measure{Reference: c.reference},
			judges.FolderOptions{Reference: true, PerClass: c.perClass})
		require.EqualError(t, err, c.want)
		require.Zero(t, x.n, c.want)
	}
	x := &counting{}
	_, err = judges.EvalFolder(t.Context(), good, x, judges.Measure{Reference: folder(t, 5, 8)},
		judges.FolderOptions{Reference: true})
	require.NoError(t, err)
	require.Equal(t, 11, x.n)
}
