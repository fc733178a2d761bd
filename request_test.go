package unmask_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/prompt"
	"unmask/testkit/refusal"
	"unmask/testkit/requesttest"
)

// made returns the tokens that a prepared request becomes.
func made(t *testing.T, m *unmask.Model, r unmask.Request) []int32 {
	q, err := m.Prepare(t.Context(), r)
	require.NoError(t, err)
	var tokens []int32
	for step, err := range generate.Each(t.Context(), m.Denoiser,
		generate.PoolOptions{Size: 1, Guided: true}, slices.Values([]generate.Request{q})) {
		require.NoError(t, err)
		tokens = slices.Clone(step.Sequences[0].Tokens)
	}
	return tokens
}

// The library's example in the README gives the text of the same flags. Unset and none differ.
func TestUnsetIsTheModelsOwn(t *testing.T) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	r := unmask.Request{Seed: 2, Length: 96, Overrides: unmask.Overrides{"steps": "8"}}
	own := made(t, m, r)
	require.Equal(t, [][]int32{own}, tokens(t, m, samples{Request: r}))

	m.Recipe = "moment cache=1"
	own = made(t, m, r)
	require.Equal(t, [][]int32{own}, tokens(t, m, samples{Request: r}))
	r.Overrides["cache"] = "0"
	none := made(t, m, r)
	require.NotEqual(t, own, none)
	require.Equal(t, [][]int32{none}, tokens(t, m, samples{Request: r}))
}

// Default steps are at most one for each masked position, and at least one for each block.
func TestDefaultSteps(t *testing.T) {
	m, _ := loadDemos(t)
	m.Recipe = ""
	for _, c := range []struct {
		steps int
		r     unmask.Request
	}{
		{32, unmask.Request{}},
		{5, unmask.Request{Length: 5}},
		{3, unmask.Request{Infill: "To be[3]."}},
		{4, unmask.Request{Prompt: "To be", MaxTokens: 4}},
		{64, unmask.Request{Length: 64, Overrides: generate.Overrides{"sampler": "semi-ar(block=1)"}}},
		{32, unmask.Request{Length: 64, Overrides: generate.Overrides{"sampler": "semi-ar(block=2)"}}},
	} {
		q, err := m.Prepare(t.Context(), c.r)
		require.NoError(t, err)
		require.Equal(t, c.steps, q.Steps)
	}
}

// Without a length, a network of more than 1024 positions makes the usual number of tokens: the
// bound of its position encoding is no length that anybody wants. An encoder does, too.
func TestUsualLength(t *testing.T) {
	load := func(pack string, positions int) *unmask.Model {
		m, err := unmask.LoadFS(tokenizerFolder(t, pack, "null", nil, map[string]any{
			"max_position_embeddings": positions}), pack, unmask.Options{Threads: 1})
		require.NoError(t, err)
		return m
	}
	for _, c := range []struct {
		pack      string
		positions int
		r         unmask.Request
		fill      int
	}{
		{"dream-tiny-bf16", 131072, unmask.Request{}, 128},
		{"dream-tiny-bf16", 131072, unmask.Request{Prompt: "a b"}, 128},
		{"dream-tiny-bf16", 131072, unmask.Request{Prompt: "a", Suffix: "b"}, 128},
		{"dream-tiny-bf16", 131072, unmask.Request{Tokens: []int32{4, 5}}, 128},
		{"dream-tiny-bf16", 131072, unmask.Request{Tokens: make([]int32, 131070)}, 2},
		{"dream-tiny-bf16", 131072, unmask.Request{Tokens: []int32{4, 150}, Length: 2}, 1},
		{"dream-tiny-bf16", 131072, unmask.Request{Prompt: "a", MaxTokens: 500}, 128}, // an answer
		{"dream-tiny-bf16", 131072, unmask.Request{Prompt: "a", MaxTokens: 50}, 50},
		{"dream-tiny-bf16", 131072, unmask.Request{Prompt: "a", Canvas: 500}, 500},
		{"dream-tiny-bf16", 131072, unmask.Request{Prompt: "a", Suffix: "b", MaxTokens: 500},
			500},
		// without an end token
		{"modernbert-tiny", 8192, unmask.Request{Tokens: []int32{9}, MaxTokens: 500}, 500},
		{"dream-tiny-bf16", 131072, unmask.Request{Prompt: "a", Length: 2000}, 1999},
		{"dream-tiny-bf16", 131072, unmask.Request{Infill: "a[3]b"}, 3},
		{"sdar-tiny", 32768, unmask.Request{Prompt: "a b"}, 128},
		{"dreamon-tiny", 32768, unmask.Request{Prompt: "a"}, 128},
		{"dreamon-tiny", 32768, unmask.Request{Prompt: "a", Suffix: "b"}, 4}, // it grows
		{"modernbert-tiny", 8192, unmask.Request{}, 128},
		{"dream-tiny-bf16", 1024, unmask.Request{Prompt: "a b"}, 1022},
		{"dream-tiny-bf16", 1024, unmask.Request{}, 1024},
	} {
		t.Run(fmt.Sprint(c.pack, c.positions, c.r.Prompt, c.fill), func(t *testing.T) {
			m := load(c.pack, c.positions)
			q, err := m.Prepare(t.Context(), c.r)
			require.NoError(t, err)
			require.Equal(t, c.fill, m.Spec().CountMasked(q.Known))
			require.LessOrEqual(t, q.Steps, c.fill)
		})
	}
}

// A bound at or above the usual length of an answer prepares what no bound does, and a lower one is
// the number of positions.
func TestBoundsLayOutNothing(t *testing.T) {
	m, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		r := requesttest.DrawChat(t)
		r.Length = 0
		r.MaxTokens = 0
		free, err := m.Prepare(t.Context(), r)
		if err != nil {
			return
		}
		usual := m.Spec().CountMasked(free.Known)
		r.MaxTokens = rapid.IntRange(1, 5000).Draw(t, "bound")
		bounded, err := m.Prepare(t.Context(), r)
		if r.MaxTokens < usual {
			if err == nil { // it has no room for the shortest call or for the steps
				require.Equal(t, r.MaxTokens, m.Spec().CountMasked(bounded.Known))
			}
			return
		}
		require.NoError(t, err)
		require.Equal(t, free.Known, bounded.Known)
		require.Equal(t, free.Recipe.String(), bounded.Recipe.String())
	})
}

// What a request becomes does not depend on whether it was JSON on the way.
func TestRequestJSON(t *testing.T) {
	r := unmask.Request{Prompt: "To be", Length: 20, Seed: 1<<64 - 1, Index: 3,
		Overrides: generate.Overrides{"sampler": "moment", "alpha": "3", "top-p": "0.5", "steps": "4"},
		Constraints: prompt.Constraints{Ban: []string{"3"}, Bias: []string{"4=1"}, MinLength: 2,
			End: "3"}}
	data, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"prompt":"To be","length":20,"seed":18446744073709551615,"index":3,
		"sampler":"moment","alpha":3,"top_p":0.5,"steps":4,"ban":["3"],"bias":["4=1"],"min_length":2,
		"end":"3"}`, string(data))
	var back unmask.Request
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, r, back)

	// A second object changes what it has.
	require.NoError(t, json.Unmarshal([]byte(`{"steps":8,"top_p":null,"class":7,"ban":"x"}`), &back))
	require.Equal(t, generate.Overrides{"sampler": "moment", "alpha": "3", "steps": "8"},
		back.Overrides)
	require.Equal(t, "4", r.Overrides["steps"], "the first is not changed")
	require.Equal(t, "7", back.Class)
	require.Equal(t, []string{"x"}, back.Ban)
	for text, want := range map[string]string{
		`{"promt":"x"}`: `unknown field "promt"`, `{"steps":"x"}`: `steps is "x", want a whole number`,
		`{"steps":0}`: "steps is 0, want 1 to", `{"top_p":true}`: "top-p is true, want a number",
		`{"sampler":3}`: "sampler is 3, want a text", `{"seed":-1}`: "seed is -1, want 0 to 2^64-1",
		`{"prompt":1}`: "prompt is a number, want a string",
	} {
		require.ErrorContains(t, json.Unmarshal([]byte(text), &back), want)
	}
}

// What may override is listed, and an override that JSON has as a constraint comes back as one.
func TestOverridable(t *testing.T) {
	text, _ := loadDemos(t)
	for _, name := range []string{"alpha", "gamma", "ban", "bias", "steps"} {
		require.True(t, slices.ContainsFunc(unmask.Overridable(), func(p param.Param) bool {
			return p.Name == name
		}), name)
	}
	r := unmask.Request{Length: 8, Overrides: unmask.Overrides{"ban": "775", "bias": "3=1"}}
	want, err := text.Prepare(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, []int32{775}, want.Filter.Ban)
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var back unmask.Request
	require.NoError(t, json.Unmarshal(data, &back))
	got, err := text.Prepare(t.Context(), back)
	require.NoError(t, err)
	require.Equal(t, want.Filter, got.Filter)
}

// namesField requires that a refusal names a field of a request, as a flag is named.
func namesField(t require.TestingT, err error) {
	if err == nil {
		return
	}
	var refused *param.Error
	require.ErrorAs(t, err, &refused)
	var names []string
	for _, p := range unmask.Overridable() {
		names = append(names, unmask.FieldName(p.Name))
	}
	for _, of := range []any{unmask.Request{}, unmask.ImageInput{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	require.Contains(t, names, unmask.FieldName(refused.Name), "%v", err)
}

// given returns a request that begins with a picture of the demo's size.
func given(in unmask.ImageInput) unmask.Request {
	if in.File == "" {
		in.Picture = image.NewGray(image.Rect(0, 0, 64, 64))
	}
	return unmask.Request{Image: &in}
}

func TestPrepareRefuses(t *testing.T) {
	text, picture := loadDemos(t)
	for _, c := range []struct {
		m      *unmask.Model
		name   string
		reason param.Reason
		r      unmask.Request
	}{
		{text, "infill", param.NoEffect, unmask.Request{Prompt: "a", Infill: "b[1]"}},
		{text, "infill", param.NoHole, unmask.Request{Infill: "b"}},
		{text, "infill", param.TooLong, unmask.Request{Infill: "b[200][200]"}},
		{text, "prompt", param.TooLong, unmask.Request{Prompt: "To be, or not", Length: 2}},
		{text, "length", param.OutOfRange, unmask.Request{Length: 1000}},
		{text, "max-tokens", param.OutOfRange, unmask.Request{MaxTokens: -1}},
		{text, "max-tokens", param.NoEffect, unmask.Request{MaxTokens: 10, Length: 10}},
		{text, "class", param.Unsupported, unmask.Request{Class: "x"}},
		{text, "negative", param.Unsupported, unmask.Request{Negative: "x"}},
		{text, "end", param.NoEffect, unmask.Request{Constraints: prompt.Constraints{End: "3"}}},
		{text, "min-length", param.OutOfRange,
			unmask.Request{Length: 3, Constraints: prompt.Constraints{End: "3", MinLength: 4}}},
		{text, "ban", param.OutOfRange,
			unmask.Request{Constraints: prompt.Constraints{Ban: []string{""}}}},
		{text, "sampler", param.NoSuch, unmask.Request{Overrides: generate.Overrides{"sampler": "x"}}},
		{text, "steps", param.OutOfRange,
			unmask.Request{Length: 8, Overrides: generate.Overrides{"steps": "2",
				"sampler": "semi-ar(block=2)"}}},
		{text, "refresh", param.NoEffect, unmask.Request{Overrides: generate.Overrides{"refresh": "4"}}},
		{text, "preset", param.NoSuch, unmask.Request{Preset: "x"}},
		{text, "messages", param.Unsupported, unmask.Request{Messages: json.RawMessage("[]")}},
		{picture, "prompt", param.Unsupported, unmask.Request{Prompt: "x"}},
		{picture, "infill", param.Unsupported, unmask.Request{Infill: "x[1]"}},
		{picture, "length", param.Unsupported, unmask.Request{Length: 3}},
		{picture, "image", param.OutOfRange, unmask.Request{Image: &unmask.ImageInput{File: "none.png"}}},
		{picture, "mask", param.NoHole, given(unmask.ImageInput{})},
		{picture, "mask", param.OutOfRange,
			given(unmask.ImageInput{Mask: image.NewNRGBA(image.Rect(0, 0, 3, 5))})},
		{picture, "mask", param.OutOfRange, given(unmask.ImageInput{MaskFile: "none.png"})},
		{picture, "box", param.OutOfRange, given(unmask.ImageInput{Box: "0,0,9"})},
		{picture, "box", param.OutOfRange, given(unmask.ImageInput{Box: "0,0,9,99"})},
		{picture, "fit", param.NoSuch, given(unmask.ImageInput{Box: "0,0,9,9", Fit: "squeeze"})},
		{picture, "outpaint", param.OutOfRange, given(unmask.ImageInput{Outpaint: "up=3"})},
		{picture, "outpaint", param.NoEffect,
			given(unmask.ImageInput{Outpaint: "left=3", Box: "0,0,9,9"})},
		{picture, "strength", param.OutOfRange, given(unmask.ImageInput{Strength: 2})},
		{picture, "strength", param.NoEffect,
			given(unmask.ImageInput{Strength: 0.5, Box: "0,0,9,9"})},
		{picture, "class", param.OutOfRange, unmask.Request{Class: "noon"}},
		{text, "image", param.Unsupported, given(unmask.ImageInput{Strength: 0.5})},
		{text, "suffix-tokens", param.NoSuchToken,
			unmask.Request{Prompt: "a", SuffixTokens: []int32{-5}, MaxTokens: 4}},
	} {
		_, err := c.m.Prepare(t.Context(), c.r)
		var refused *param.Error
		require.ErrorAs(t, err, &refused, "%+v", c.r)
		require.Equal(t, c.name, refused.Name, "%v", err)
		namesField(t, err)
		require.Equal(t, c.reason, refused.Reason, "%v", err)
		require.NotContains(t, err.Error(), "\n")
	}
}

// A wrong token is named by its place in the field, not in the sequence around it.
func TestPrepareNamesTheToken(t *testing.T) {
	text, _ := loadDemos(t)
	for want, r := range map[string]unmask.Request{
		"tokens: token is -1 at position 0, want ": {Tokens: []int32{-1}, Length: 8},
		"suffix-tokens: token is -5 at position 1,": {Prompt: "a",
			SuffixTokens: []int32{3, -5}, MaxTokens: 4},
	} {
		_, err := text.Prepare(t.Context(), r)
		refusal.RequireText(t, err, want)
	}
}

// A request, its JSON, and its line of --prompts over another request prepare the same.
func TestAllWaysPrepareTheSame(t *testing.T) {
	var models []*unmask.Model
	for _, files := range []fs.FS{demo.Text(), demo.Image(), demo.Chat()} {
		m, err := unmask.LoadFS(files, "demo", unmask.Options{})
		require.NoError(t, err)
		models = append(models, m)
	}
	text, picture, chat := models[0], models[1], models[2]
	files := requesttest.NewFiles(t)
	rapid.Check(t, func(t *rapid.T) { sameWays(t, text, requesttest.DrawText(t, text.Spec().Mask)) })
	rapid.Check(t, func(t *rapid.T) { sameWays(t, picture, requesttest.DrawPicture(t, files)) })
	rapid.Check(t, func(t *rapid.T) { sameWays(t, chat, requesttest.DrawChat(t)) })
}

func sameWays(t *rapid.T, m *unmask.Model, r unmask.Request) {
	data, err := json.Marshal(r)
	require.NoError(t, err)
	far := r
	if r.Image == nil { // whose files a request from outside may not name
		far = unmask.Request{}
		require.NoError(t, json.Unmarshal(data, &far))
	}
	line, seeded, err := unmask.InputOf(r).ApplyTo(unmask.Request{Seed: 5})
	require.NoError(t, err)
	require.True(t, seeded)
	want, wrong := m.Prepare(context.Background(), r)
	namesField(t, wrong)
	for _, other := range []unmask.Request{far, line} {
		got, err := m.Prepare(context.Background(), other)
		requesttest.RequireSame(t, want, wrong, got, err)
	}
}

// Every image model's published run parses, and its network accepts it.
func TestPublishedRecipes(t *testing.T) {
	for _, name := range []string{"titok-bert-tiny", "titok-uvit-tiny", "maskgen-tiny",
		"amused-256-tiny", "amused-512-tiny/transformer"} {
		src, err := model.Open("testdata/packs/" + name)
		require.NoError(t, err)
		defer src.Set.Close()
		m, err := model.Load(src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		r, err := generate.ParseRecipe(m.Recipe)
		require.NoError(t, err, name)
		require.Equal(t, "sampler="+m.Recipe, r.String())
		require.Equal(t, model.KindImage, m.Kind)
	}
}

// Every language model's published run does too.
func TestPublishedRecipesOfText(t *testing.T) {
	for _, name := range []string{"llada-tiny", "dream-tiny", "sdar-tiny", "fast-dllm-v2-tiny",
		"llada2-moe-tiny", "nemotron-labs-tiny", "wedlm-7b-tiny", "dreamon-tiny"} {
		src, err := model.Open("testdata/packs/" + name)
		require.NoError(t, err)
		defer src.Set.Close()
		m, err := model.Load(src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		r, err := generate.ParseRecipe(m.Recipe)
		require.NoError(t, err, name)
		require.Equal(t, "sampler="+m.Recipe, r.String())
		_, err = generate.Options{Request: generate.Request{Recipe: r, Length: 140}}.Check(m.Denoiser)
		require.NoError(t, err)
		for preset, recipe := range m.Presets {
			r, err := generate.ParseRecipe(recipe)
			require.NoError(t, err, preset)
			_, err = generate.Options{Request: generate.Request{Recipe: r, Length: 140}}.Check(m.Denoiser)
			require.NoError(t, err, preset)
		}
	}
}

// A config.json names the run that its weights are for.
func TestRecipeOfConfig(t *testing.T) {
	config, err := fs.ReadFile(demo.Text(), "config.json")
	require.NoError(t, err)
	with := func(recipe string) (*unmask.Model, error) {
		files := fstest.MapFS{"config.json": {Data: bytes.Replace(config,
			[]byte(`"halton(gamma=1.25) schedule=cosine steps=64"`), []byte(recipe), 1)}}
		for _, name := range []string{"model.safetensors", "tokenizer.json"} {
			data, err := fs.ReadFile(demo.Text(), name)
			require.NoError(t, err)
			files[name] = &fstest.MapFile{Data: data}
		}
		return unmask.LoadFS(files, "m", unmask.Options{Threads: 1})
	}
	m, err := with(`"halton steps=7"`)
	require.NoError(t, err)
	r, err := m.Defaults()
	require.NoError(t, err)
	require.Equal(t, "sampler=halton schedule=uniform steps=7", r.String())
	_, err = with(`7`)
	require.EqualError(t, err, "m: config.json: unmask_recipe is a number, want a string")
	m, err = with(`"nonsense"`)
	require.NoError(t, err)
	_, err = m.Defaults()
	refusal.RequireText(t, err, "m: published recipe: ")
}

// Whoever sends a request does not choose which files are opened; a program that fills one in, or a
// line of the user's own file, does.
func TestRequestsFromOutsideNameNoFiles(t *testing.T) {
	for _, data := range []string{`{"image":{"file":"/etc/passwd"}}`, `{"image":{"mask":"m.png"}}`} {
		var r unmask.Request
		refusal.RequireText(t, json.Unmarshal([]byte(data), &r), "want none in a request that is read")
		require.Nil(t, r.Image)
		r, _, err := unmask.Input(data).ApplyTo(unmask.Request{})
		require.NoError(t, err)
		require.NotNil(t, r.Image)
	}
	r := unmask.Request{Image: &unmask.ImageInput{File: "in.png"}}
	require.NoError(t, json.Unmarshal([]byte(`{"image":{"paste":true}}`), &r))
	require.Equal(t, unmask.ImageInput{File: "in.png", Paste: true}, *r.Image)
}
