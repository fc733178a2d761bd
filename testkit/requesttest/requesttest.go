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

// DrawText draws a request for the demo text model, whose mask is given. Some are refused.
func DrawText(t *rapid.T, mask int32) unmask.Request {
	r := common(t)
	r.Length = oneOf(t, "length", 0, 0, 20, 300)
	r.MaxTokens = oneOf(t, "max tokens", 0, 0, 9)
	r.End, r.Cut = oneOf(t, "end", "", "", "13"), oneOf(t, "cut", false, false, true)
	r.MinLength = oneOf(t, "min length", 0, 0, 9)
	r.Stop = oneOf(t, "stop", nil, nil, []string{"e"}, []string{"th", "."})
	switch rapid.IntRange(0, 3).Draw(t, "given") {
	case 0:
		r.Prompt = oneOf(t, "prompt", "", "Once upon")
		r.Suffix = oneOf(t, "suffix", "", " the end.")
	case 1:
		r.Infill = oneOf(t, "infill", "Lily[3].", "[20] the end.", "no hole")
	case 2:
		r.Tokens = []int32{7, 8, mask}
	}
	if ban := oneOf(t, "ban", "", "3,17", "the"); ban != "" {
		r.Ban, r.Bias = []string{ban}, []string{ban + "=-2"}
	}
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
	r := common(t)
	r.Messages = json.RawMessage(oneOf(t, "messages", conversations...))
	r.Length = oneOf(t, "length", 0, 0, 99, 300)
	r.MaxTokens = oneOf(t, "max tokens", 0, 0, 9)
	if oneOf(t, "tools", false, false, true) {
		r.Tools, r.Calls = callsOf(rapid.Bool().Draw(t, "several"))
	}
	if ban := oneOf(t, "ban", "", "3,17"); ban != "" {
		r.Ban, r.Bias = []string{ban}, []string{ban + "=-2"}
	}
	return r
}

// callsOf returns a function as a template has it, and calls of it.
func callsOf(several bool) (tools json.RawMessage, calls *prompt.Calls) {
	const parameters = `{"enum":[{},{"toy":"ball"}]}`
	return json.RawMessage(`[{"type":"function","function":{"name":"find","parameters":` + parameters +
			`}}]`), &prompt.Calls{Several: several,
			Functions: []prompt.Function{{Name: "find", Parameters: json.RawMessage(parameters)}}}
}

// Files are the names of pictures that requests begin with.
type Files struct{ Picture, Holes, Mask, Small string }

// NewFiles writes the pictures: one of the demo model's size, the same with a transparent corner, a
// mask, and a mask of another size.
func NewFiles(t *testing.T) Files {
	dir := t.TempDir()
	write := func(name string, p image.Image) string {
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
	f := Files{Picture: write("picture.png", picture),
		Small: write("small.png", image.NewGray(image.Rect(0, 0, 3, 5)))}
	corner := image.Rect(0, 0, 20, 30)
	draw.Draw(picture, corner, image.Transparent, image.Point{}, draw.Src)
	f.Holes = write("holes.png", picture)
	mask := image.NewGray(picture.Rect)
	draw.Draw(mask, corner.Add(image.Pt(9, 9)), image.White, image.Point{}, draw.Src)
	f.Mask = write("mask.png", mask)
	return f
}

// DrawPicture draws a request for the demo model of pictures. Some are refused.
func DrawPicture(t *rapid.T, files Files) unmask.Request {
	r := common(t)
	switch rapid.IntRange(0, 9).Draw(t, "begins with") {
	case 0, 1:
		r.Image = &unmask.ImageInput{File: oneOf(t, "image", files.Picture, files.Holes),
			MaskFile: oneOf(t, "mask", "", files.Mask, files.Mask, files.Small),
			Fit:      oneOf(t, "fit", "", "", "cover", "squeeze")}
	case 2:
		r.Image = &unmask.ImageInput{File: files.Picture, Box: oneOf(t, "box", "8,8,9,9", "8,8,9,99")}
	case 3:
		r.Image = &unmask.ImageInput{File: files.Picture, Fit: "contain", Strength: 0.5}
	}
	r.Class = oneOf(t, "class", "", "dusk", "2", "9")
	override(t, &r, "guidance", "0", "2.5")
	override(t, &r, "guidance-schedule", "linear")
	if ban := oneOf(t, "ban", "", "3,17"); ban != "" {
		r.Ban, r.Bias = []string{ban}, []string{ban + "=-2"}
	}
	return r
}

// common draws what requests of all models have.
func common(t *rapid.T) unmask.Request {
	r := unmask.Request{Seed: rapid.Uint64Min(1).Draw(t, "seed"),
		Index: rapid.Uint32Max(1000).Draw(t, "index"), Overrides: generate.Overrides{}}
	values := map[string][]string{"sampler": {"moment", "semi-ar(hybrid)", "x"},
		"steps": {"3", "64"}, "top-p": {"0.5"}, "temperature": {"0", "0.7"}, "alpha": {"3"},
		"reuse": {"dual", "dkv", "block-dkv"}, "cache": {"0", "2"}, "schedule": {"cosine"}}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		override(t, &r, name, values[name]...)
	}
	return r
}

// override may set a parameter to one of some values. Mostly it does not, so that most requests are
// not refused.
func override(t *rapid.T, r *unmask.Request, name string, values ...string) {
	if value := oneOf(t, name, append(values, make([]string, 9)...)...); value != "" {
		r.Overrides[name] = value
	}
}

func oneOf[T any](t *rapid.T, name string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, name)
}

// RequireSame requires that two requests are the same or were refused in the same words. Functions
// of a request cannot be compared; both must have them or neither.
func RequireSame(t require.TestingT, want generate.Request, wantErr error, got generate.Request,
	gotErr error) {
	if wantErr != nil || gotErr != nil {
		require.Equal(t, wantErr, gotErr)
		return
	}
	require.Equal(t, want.String(), got.String())
	require.Equal(t, want.Adjust == nil, got.Adjust == nil)
	for _, q := range []*generate.Request{&want, &got} {
		q.Adjust, q.Recipe = nil, generate.Recipe{}
	}
	require.Equal(t, want, got)
}
