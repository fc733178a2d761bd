// Package requesttest makes random requests for the demo models. Tests of every way to ask for a
// sequence (JSON, a line of --prompts, flags, an HTTP body) use it to show that the way prepares
// the generate.Request that the unmask.Request itself prepares.
package requesttest

import (
	"encoding/json"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask"
	"unmask/generate"
	"unmask/prompt"
)

// DrawText draws a request for the demo text model, whose mask token is mask. Some requests are
// refused: every way to ask must refuse the same ones.
func DrawText(t *rapid.T, mask int32) unmask.Request {
	r := drawCommon(t)
	r.Length = drawOne(t, "length", 0, 0, 20, 300)
	r.MaxTokens = drawOne(t, "max tokens", 0, 0, 9)
	r.End = drawOne(t, "end", "", "", "13")
	r.Cut = drawOne(t, "cut", false, false, true)
	r.MinLength = drawOne(t, "min length", 0, 0, 9)
	r.Stop = drawOne(t, "stop", nil, nil, []string{"e"}, []string{"th", "."})
	switch rapid.IntRange(0, 3).Draw(t, "known text") {
	case 0:
		r.Prompt = drawOne(t, "prompt", "", "Once upon")
		r.Suffix = drawOne(t, "suffix", "", " the end.")
	case 1:
		r.Infill = drawOne(t, "infill", "Lily[3].", "[20] the end.", "no hole")
	case 2:
		r.Tokens = []int32{7, 8, mask}
	}
	drawBan(t, &r, "3,17", "the")
	return r
}

// conversations are messages in JSON; the demo chat model has no place for the second and third.
var conversations = []string{
	`[{"role":"user","content":"Tell me about Tom."}]`,
	`[{"role":"system","content":"Be brief."},{"role":"user","content":"Who is Tom?"}]`,
	`[{"role":"user","content":"` + strings.Repeat("Tom and Lily. ", 99) + `"}]`,
	`[{"role":"user","content":"Who is Tom?"},{"role":"assistant","content":"Tom is a bear."},` +
		`{"role":"user","content":"And Lily?"}]`,
}

// DrawChat draws a request for an answer of the demo chat model. Some are refused.
func DrawChat(t *rapid.T) unmask.Request {
	r := drawCommon(t)
	r.Messages = json.RawMessage(drawOne(t, "messages", conversations...))
	r.Length = drawOne(t, "length", 0, 0, 99, 300)
	r.MaxTokens = drawOne(t, "max tokens", 0, 0, 9)
	if drawOne(t, "tools", false, false, true) {
		r.Tools, r.Calls = newCalls(rapid.Bool().Draw(t, "several"))
	}
	drawBan(t, &r, "3,17")
	return r
}

// newCalls returns a function as a chat template takes it, and the grammar of calls of it. several
// allows more than one call in an answer.
func newCalls(several bool) (tools json.RawMessage, calls *prompt.Calls) {
	const parameters = `{"enum":[{},{"toy":"ball"}]}`
	tools = json.RawMessage(`[{"type":"function","function":{"name":"find","parameters":` +
		parameters + `}}]`)
	calls = &prompt.Calls{
		Several:   several,
		Functions: []prompt.Function{{Name: "find", Parameters: json.RawMessage(parameters)}},
	}
	return tools, calls
}

// Files are the names of pictures that requests begin with.
type Files struct {
	// Picture is of the demo model's size, 64 x 64 pixels.
	Picture string

	// Holes is Picture with a transparent corner, which a model fills.
	Holes string

	// Mask is white where a model fills a picture.
	Mask string

	// Small is a mask of another size, which is refused.
	Small string
}

// NewFiles writes the pictures to a folder of the test.
func NewFiles(t *testing.T) Files {
	dir := t.TempDir()
	writePicture := func(name string, p image.Image) string {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, png.Encode(f, p))
		require.NoError(t, f.Close())
		return f.Name()
	}
	picture := image.NewNRGBA(image.Rect(0, 0, 64, 64))
	for i := range 64 * 64 {
		picture.SetNRGBA(i%64, i/64, color.NRGBA{uint8(3 * i), uint8(i / 17), uint8(i / 64), 255})
	}
	files := Files{
		Picture: writePicture("picture.png", picture),
		Small:   writePicture("small.png", image.NewGray(image.Rect(0, 0, 3, 5))),
	}

	corner := image.Rect(0, 0, 20, 30)
	draw.Draw(picture, corner, image.Transparent, image.Point{}, draw.Src)
	files.Holes = writePicture("holes.png", picture)

	mask := image.NewGray(picture.Rect)
	draw.Draw(mask, corner.Add(image.Pt(9, 9)), image.White, image.Point{}, draw.Src)
	files.Mask = writePicture("mask.png", mask)
	return files
}

// DrawPicture draws a request for the demo model of pictures. Some are refused.
func DrawPicture(t *rapid.T, files Files) unmask.Request {
	r := drawCommon(t)
	switch rapid.IntRange(0, 9).Draw(t, "begins with") {
	case 0, 1:
		r.Image = &unmask.ImageInput{
			File:     drawOne(t, "image", files.Picture, files.Holes),
			MaskFile: drawOne(t, "mask", "", files.Mask, files.Mask, files.Small),
			Fit:      drawOne(t, "fit", "", "", "cover", "squeeze"),
		}
	case 2:
		r.Image = &unmask.ImageInput{File: files.Picture, Box: drawOne(t, "box", "8,8,9,9", "8,8,9,99")}
	case 3:
		r.Image = &unmask.ImageInput{File: files.Picture, Fit: "contain", Strength: 0.5}
	}
	r.Class = drawOne(t, "class", "", "dusk", "2", "9")
	drawOverride(t, &r, "guidance", "0", "2.5")
	drawOverride(t, &r, "guidance-schedule", "linear")
	drawBan(t, &r, "3,17")
	return r
}

// drawBan may ban some tokens and bias them too, which a ban makes pointless but must not break.
func drawBan(t *rapid.T, r *unmask.Request, tokens ...string) {
	ban := drawOne(t, "ban", append([]string{""}, tokens...)...)
	if ban != "" {
		r.Ban = []string{ban}
		r.Bias = []string{ban + "=-2"}
	}
}

// drawCommon draws the part of a request that all models have: its identity and recipe.
func drawCommon(t *rapid.T) unmask.Request {
	r := unmask.Request{
		Seed:      rapid.Uint64Min(1).Draw(t, "seed"),
		Index:     rapid.Uint32Max(1000).Draw(t, "index"),
		Overrides: generate.Overrides{},
	}
	values := map[string][]string{
		"sampler":     {"moment", "semi-ar(hybrid)", "x"}, // there is no sampler x
		"steps":       {"3", "64"},
		"top-p":       {"0.5"},
		"temperature": {"0", "0.7"},
		"alpha":       {"3"},
		"reuse":       {"dual", "dkv", "block-dkv"},
		"cache":       {"0", "2"},
		"schedule":    {"cosine"},
	}

	// In order of names: a failure that rapid found must be drawn again from its seed.
	for _, name := range slices.Sorted(maps.Keys(values)) {
		drawOverride(t, &r, name, values[name]...)
	}
	return r
}

// drawOverride may set a parameter to one of some values. Nine times in ten or so it does not: with
// more overrides, most requests would be refused.
func drawOverride(t *rapid.T, r *unmask.Request, name string, values ...string) {
	if value := drawOne(t, name, append(values, make([]string, 9)...)...); value != "" {
		r.Overrides[name] = value
	}
}

// drawOne draws one of some values.
func drawOne[T any](t *rapid.T, name string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, name)
}

// RequireSame requires that two requests are the same or were refused with the same error.
// Functions cannot be compared, so of those it only requires that both requests have them or
// neither. Recipes hold functions too, and are compared by their texts.
func RequireSame(t require.TestingT, want generate.Request, wantErr error, got generate.Request,
	gotErr error) {
	if wantErr != nil || gotErr != nil {
		require.Equal(t, wantErr, gotErr)
		return
	}
	require.Equal(t, want.String(), got.String())
	require.Equal(t, want.Adjust == nil, got.Adjust == nil)
	require.Equal(t, want.HasEnd == nil, got.HasEnd == nil)
	for _, q := range []*generate.Request{&want, &got} {
		q.Adjust = nil
		q.HasEnd = nil
		q.Recipe = generate.Recipe{}
	}
	require.Equal(t, want, got)
}
