package paint_test

import (
	"context"
	"image/gif"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/generate"
	"unmask/runs/outputs"
)

// Every family draws into a folder that can be continued, onto a contact sheet and into a film; its
// files name the class or prompt.
func TestFamiliesAreDrawn(t *testing.T) {
	ctx := context.Background()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			m, _ := f.load(t)
			asked := []string{"7", "3"}
			var lines []unmask.Input
			if f.prompt {
				asked = []string{"a photo of a cat", "the sun"}
			}
			for _, text := range asked {
				r := unmask.Request{Class: text}
				if f.prompt {
					r = unmask.Request{Prompt: text}
				}
				lines = append(lines, unmask.InputOf(r))
			}
			published, err := m.Defaults()
			require.NoError(t, err)
			published.Steps = 3
			dir := t.TempDir()
			draw := func(n int) (made int, said []string) {
				j, err := outputs.Prepare(ctx, m, unmask.Request{Seed: 5,
					Overrides: generate.Overrides{"steps": "3"}}, lines, n, 0)
				require.NoError(t, err)
				s, err := j.Settings("f32")
				require.NoError(t, err)
				p, err := outputs.OpenPictures(j, outputs.PictureOptions{Dir: filepath.Join(dir, "out"),
					Settings: s, Sheet: filepath.Join(dir, "sheet.png"),
					Film: filepath.Join(dir, "film.gif"), Say: func(line string) { said = append(said, line) }})
				require.NoError(t, err)
				err = outputs.MakeSamples(ctx, j, p.Missing(), p, outputs.Hooks{Step: p.RecordFilm})
				_, closed := p.Close(err)
				require.NoError(t, err)
				require.NoError(t, closed)
				return p.Written(), said
			}
			made, _ := draw(2)
			require.Equal(t, 2, made)
			first, err := os.ReadFile(filepath.Join(dir, "out", "000001.png"))
			require.NoError(t, err)
			made, said := draw(3)
			require.Equal(t, 1, made)
			require.Contains(t, said, "2 of 3 images are there")
			again, err := os.ReadFile(filepath.Join(dir, "out", "000001.png"))
			require.NoError(t, err)
			require.Equal(t, first, again)

			texts := map[string]string{"class": asked[1], "seed": "5", "recipe": published.String()}
			if f.prompt {
				texts["prompt"] = asked[1]
				delete(texts, "class")
			}
			for key, text := range texts {
				require.Contains(t, string(first), "iTXt"+key+"\x00\x00\x00\x00\x00"+text)
			}
			file, err := os.Open(filepath.Join(dir, "sheet.png"))
			require.NoError(t, err)
			defer file.Close()
			_, err = png.Decode(file)
			require.NoError(t, err)
			film, err := os.Open(filepath.Join(dir, "film.gif"))
			require.NoError(t, err)
			defer film.Close()
			all, err := gif.DecodeAll(film)
			require.NoError(t, err)
			require.Len(t, all.Image, 4)
			require.Equal(t, []int{12, 12, 12, 250}, all.Delay)
		})
	}
}
