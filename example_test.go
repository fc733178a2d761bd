package unmask_test

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"slices"
	"sort"
	"strings"

	"unmask"
	"unmask/demo"
	"unmask/generate"
	"unmask/model"
	"unmask/prompt"
	"unmask/samplers"
)

// Write a text.
func Example() {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	if err != nil {
		panic(err)
	}
	said, err := m.Write(context.Background(), unmask.Request{Prompt: "Lily was a brave girl.",
		Length: 48, Seed: 1, Overrides: unmask.Recipe{Steps: 24,
			Filter: unmask.Filter{Temperature: 0.9, TopK: 40}}.Overrides()})
	if err != nil {
		panic(err)
	}
	_, after, prompted := strings.Cut(said.Text, "Lily was a brave girl.")
	fmt.Println(prompted, strings.Contains(after, prompt.Hole), len(strings.Fields(after)) > 10)
	// Output: true false true
}

// Watch the steps: masked positions show as ▯ until they open.
func ExampleGenerate_watch() {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	if err != nil {
		panic(err)
	}
	r := unmask.Request{Length: 16, Seed: 2,
		Overrides: unmask.Overrides{"sampler": "halton", "schedule": "uniform", "steps": "4"}}
	for step, err := range unmask.Generate(context.Background(), m, r, 1) {
		if err != nil {
			panic(err)
		}
		s := step.Sequences[0]
		text := m.Text.Decode(s.Tokens)
		fmt.Printf("step %d of %d opens %d, %d are left\n", step.N, step.Steps, len(s.Opened),
			strings.Count(text, prompt.Hole))
	}
	// Output:
	// step 1 of 4 opens 4, 12 are left
	// step 2 of 4 opens 4, 8 are left
	// step 3 of 4 opens 4, 4 are left
	// step 4 of 4 opens 4, 0 are left
}

// Fix positions: a token that is not the mask at the start stays.
func ExampleGenerate_fixed() {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	if err != nil {
		panic(err)
	}
	mask := m.Spec().Mask
	start, err := m.Text.Encode("Once upon a time")
	if err != nil {
		panic(err)
	}
	for range 12 {
		start = append(start, mask)
	}
	var text string
	r := unmask.Request{Tokens: start, Seed: 3, Overrides: unmask.Overrides{"steps": "6"}}
	for step, err := range unmask.Generate(context.Background(), m, r, 1) {
		if err != nil {
			panic(err)
		}
		text = m.Text.Decode(step.Sequences[0].Tokens)
	}
	fmt.Println(strings.HasPrefix(text, "Once upon a time"), strings.Contains(text, prompt.Hole))
	// Output: true false
}

// surest is a user's own order: it opens the positions of lowest entropy first.
type surest struct{}

func (surest) Needs(step, steps int) samplers.Need { return samplers.Need{Entropy: true} }

func (surest) Rank(v *samplers.View, k int) []int {
	rank := make([]int, len(v.Masked)) // indices into Masked, and so into Entropy
	for i := range rank {
		rank[i] = i
	}
	sort.SliceStable(rank, func(a, b int) bool { return v.Entropy[rank[a]] < v.Entropy[rank[b]] })
	positions := make([]int, k)
	for i := range positions {
		positions[i] = v.Masked[rank[i]]
	}
	return positions
}

// A user's own order is a type with two methods. It draws, caches and combines with other rules as
// the built-in orders do.
func ExampleGenerate_order() {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	if err != nil {
		panic(err)
	}
	run := generate.Options{Request: generate.Request{Length: 32, Seed: 4, Recipe: generate.Recipe{
		Sampler: samplers.ChooseThenSample{Order: surest{}}, Steps: 16, Cache: 1}}}
	for step, err := range generate.Run(context.Background(), m.Denoiser, run) {
		if err != nil {
			panic(err)
		}
		if s := step.Sequences[0]; s.Done {
			fmt.Println(s.Work.Full, "full passes,", s.Work.Partial, "rows of partial ones")
		}
	}
	// Output: 16 full passes, 30 rows of partial ones
}

// Keys and values are tensors: take them out of a cache, change them, and put them back.
func ExampleModel_cache() {
	ctx := context.Background()
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	if err != nil {
		panic(err)
	}
	network := m.Denoiser.(model.Refiner)
	tokens := make([]int32, 8)
	for i := range tokens {
		tokens[i] = m.Spec().Mask
	}
	b := &model.Batch{Size: 1, Length: 8, Tokens: tokens, Cache: network.NewCache(1, 8)}
	if _, err := network.Forward(ctx, b); err != nil {
		panic(err)
	}
	k := b.Cache.K[0] // of the first layer, [batch, heads, length, headDim]
	fmt.Println(len(b.Cache.K), "layers of", k.Shape())

	kept := make([]float32, k.Shape().TotalSize())
	m.Backend.Read(kept, k, 0)
	entropy := func() float64 {
		marginals, err := network.Refine(ctx, b, []int32{3})
		if err != nil {
			panic(err)
		}
		s := model.Stats{Entropy: make([]float64, 1)}
		if err := marginals.Stats([]int32{3}, &s); err != nil {
			panic(err)
		}
		return s.Entropy[0]
	}
	before := entropy()
	m.Backend.Write(k, 0, make([]float32, len(kept))) // no keys: attention is uniform
	without := entropy()
	m.Backend.Write(k, 0, kept)
	fmt.Println(before == entropy(), before == without)
	// Output:
	// 8 layers of (1, 3, 8, 64)
	// true false
}

// run returns the last tokens of a sequence that begins with some.
func run(m *unmask.Model, tokens []int32, steps int, seed uint64) (last []int32) {
	r := unmask.Request{Tokens: tokens, Seed: seed,
		Overrides: unmask.Overrides{"steps": fmt.Sprint(steps)}}
	for step, err := range unmask.Generate(context.Background(), m, r, 1) {
		if err != nil {
			panic(err)
		}
		last = slices.Clone(step.Sequences[0].Tokens)
	}
	return last
}

// Continue a text, and show it.
func ExampleModel_AnswerOf() {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	if err != nil {
		panic(err)
	}
	r := unmask.Request{Prompt: "Lily was a brave girl.", Length: 24}
	q, err := m.Prepare(context.Background(), r)
	if err != nil {
		panic(err)
	}
	text := m.AnswerOf(&r, &q).Render(run(m, q.Known, 6, 1)).Text
	fmt.Println(strings.HasPrefix(text, "Lily was a brave girl."), strings.Contains(text, prompt.Hole))
	// Output: true false
}

// Fill the holes of a text; each is written as a number of tokens in brackets.
func ExampleText_Infill() {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	if err != nil {
		panic(err)
	}
	tokens, err := m.Text.Infill("Once upon a time [4] red kite.", 0)
	if err != nil {
		panic(err)
	}
	fmt.Println(m.Text.Decode(tokens))
	text := m.Text.Decode(run(m, tokens, 4, 1))
	fmt.Println(strings.HasPrefix(text, "Once upon a time "), strings.HasSuffix(text, " red kite."))
	// Output:
	// Once upon a time ▯▯▯▯ red kite.
	// true true
}

// Ban tokens given as text, and an end of the text before a minimum length. An exact model, which
// has letters for tokens, shows that both hold.
func ExampleModel_Prepare() {
	m, err := unmask.Load(context.Background(), "oracle:product:length=12,tokens=3", unmask.Options{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	r, err := m.Prepare(ctx, unmask.Request{Seed: 1,
		Constraints: prompt.Constraints{Ban: []string{"b"}, MinLength: 10, End: "c"}})
	if err != nil {
		panic(err)
	}
	text := ""
	for step, err := range generate.Each(ctx, m.Denoiser, generate.PoolOptions{},
		slices.Values([]generate.Request{r})) {
		if err != nil {
			panic(err)
		}
		text = m.Text.Decode(step.Sequences[0].Tokens)
	}
	fmt.Println(len(text), strings.Contains(text, "b"), strings.Contains(text[:10], "c"))
	// Output: 12 false false
}

// Keep the part of a picture where a mask is black, make the rest new, and put the kept pixels
// back.
func Example_inpaint() {
	m, err := unmask.LoadFS(demo.Image(), "demo-image", unmask.Options{})
	if err != nil {
		panic(err)
	}
	picture, err := m.Pictures.Image(run(m, nil, 4, 1))
	if err != nil {
		panic(err)
	}
	hole := image.NewGray(picture.Rect)
	for x := range 8 {
		for y := range 8 {
			hole.SetGray(28+x, 28+y, color.Gray{Y: 255})
		}
	}
	tokens, err := m.Pictures.Mask(picture, hole)
	if err != nil {
		panic(err)
	}
	made, err := m.Pictures.Image(run(m, tokens, 2, 2))
	if err != nil {
		panic(err)
	}
	if err := m.Pictures.Paste(made, picture, hole); err != nil {
		panic(err)
	}
	fmt.Println(masked(tokens, m), "cells are new;", made.At(0, 0) == picture.At(0, 0))
	// Output: 4 cells are new; true
}

// Turn a picture into codes and back.
func Example_pictures() {
	m, err := unmask.LoadFS(demo.Image(), "demo-image", unmask.Options{})
	if err != nil {
		panic(err)
	}
	width, height, err := m.Pictures.Size()
	if err != nil {
		panic(err)
	}
	grey := image.NewUniform(color.Gray{Y: 128})
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		picture.Set(i%width, i/width, grey.C)
	}
	codes, err := m.Pictures.Encode(picture)
	if err != nil {
		panic(err)
	}
	back, err := m.Pictures.Image(codes)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(codes), "codes of", back.Rect.Size())
	// Output: 256 codes of (64,64)
}
