package judges_test

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/cpu"
	"unmask/demo"
	"unmask/demo/scenes"
	"unmask/media/images"
	"unmask/research/experiments"
	"unmask/research/judges"
	"unmask/research/metrics"
)

// writeScenes writes drawn landscapes into a folder for each hour, or with the hour in a text
// chunk.
func writeScenes(t *testing.T, dir string, n int, seed uint64, folders bool) {
	list, hours := scenes.Draw(n, seed)
	for i, m := range list {
		var data bytes.Buffer
		require.NoError(t, png.Encode(&data, m.NRGBA()))
		to, file := dir, data.Bytes()
		if folders {
			to = filepath.Join(dir, hours[i])
		} else {
			file = images.AddLabels(file, [][2]string{{"class", hours[i]}})
		}
		require.NoError(t, os.MkdirAll(to, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(to, fmt.Sprintf("%03d.png", i)), file, 0o644))
	}
}

// Each class is compared with the reference's pictures of that class: landscapes of an hour are
// nearer to these than to the reference of all.
func TestByClass(t *testing.T) {
	ctx := context.Background()
	p, err := unmask.LoadFS(demo.Image(), "demo", unmask.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	codec, err := p.Pictures.Codec()
	require.NoError(t, err)
	x, err := judges.FeatureNetwork(codec)
	require.NoError(t, err)
	samples, reference := t.TempDir(), t.TempDir()
	writeScenes(t, samples, 60, 1, false)
	writeScenes(t, reference, 120, 2, true)

	files, err := images.List(samples)
	require.NoError(t, err)
	classes, err := judges.PictureClasses(samples, files)
	require.NoError(t, err)
	c, err := judges.LoadClassReferences(ctx, judges.Measure{Reference: reference}, x, classes)
	require.NoError(t, err)
	whole := map[string]*experiments.ImageScorer{} // each class against the reference of all
	err = metrics.EachFeature(ctx, x, files, func(i int, f, _ []float32) error {
		if whole[classes[i]] == nil {
			whole[classes[i]] = experiments.NewImageScorer(x, c.All, 0)
		}
		require.NoError(t, whole[classes[i]].AddFeatures(f, nil))
		return c.AddFeatures(classes[i], f)
	})
	require.NoError(t, err)
	list, err := c.Metrics(ctx)
	require.NoError(t, err)
	require.Len(t, list, 4)
	n := 0
	for _, m := range list {
		n += m.Samples
		all, err := whole[m.Class].Metrics(ctx)
		require.NoError(t, err)
		require.Less(t, m.Metrics["frechet"].Value, all["frechet"].Value, m.Class)
	}
	require.Equal(t, 60, n)

	_, err = judges.LoadClassReferences(ctx, judges.Measure{Reference: reference}, x,
		[]string{"nigth"})
	require.ErrorContains(t, err, `unknown class "nigth" (did you mean night?)`)
	require.NoError(t, os.WriteFile(filepath.Join(samples, "999.png"), []byte("no picture"), 0o644))
	_, err = judges.PictureClasses(samples, append(files, filepath.Join(samples, "999.png")))
	require.ErrorContains(t, err, "999.png: there is no class, want one in its texts or as its folder")
	_, err = judges.LoadClassReferences(ctx, judges.Measure{Reference: files[0]}, x, nil)
	require.ErrorContains(t, err, "one file has no classes, want a directory")
}
