package unmask_test

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"slices"
	"strings"

	"unmask"
	"unmask/demo"
	"unmask/generate"
)

// run returns the last tokens of a sequence that begins with some.
func run(m *unmask.Model, tokens []int32, steps int, seed uint64) (last []int32) {
	r := unmask.Request{Tokens: tokens, Seed: seed,
		Overrides: unmask.Overrides{"steps": fmt.Sprint(steps)}}
	for step, err := range unmask.Generate(context.Background(), m, unmask.Run{Request: r}) {
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
	text := m.AnswerOf(&r, &q).Shown(run(m, q.Known, 6, 1)).Text
	fmt.Println(strings.HasPrefix(text, "Lily was a brave girl."), strings.Contains(text, unmask.Hole))
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
		Constraints: unmask.Constraints{Ban: []string{"b"}, MinLength: 10, End: "c"}})
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
