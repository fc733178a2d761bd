package model_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/kvcache"
	"unmask/model"
)

func TestBatchCheck(t *testing.T) {
	plain := model.Spec{Shape: []int{4}, Outcomes: 9, Mask: 9}
	classes, prompts, fixed := plain, plain, plain
	classes.Classes, prompts.Prompt, fixed.Fixed = 3, true, true
	good := func() *model.Batch {
		return &model.Batch{Size: 2, Length: 4, Tokens: slices.Repeat([]int32{9, 0, 8, 9}, 2)}
	}
	on := func(c ...*model.Condition) *model.Batch {
		b := good()
		b.Conditions = c
		return b
	}
	text := &model.Prompt{Rows: 2, Width: 1, States: []float32{1, 2}, VisibleRows: []bool{true, false}}

	ragged := good()
	// a position that is not in use may hold anything
	ragged.Lengths, ragged.Tokens[7] = []int{4, 3}, -5
	for _, b := range []*model.Batch{good(), ragged, {Size: 1, Length: 1, Tokens: []int32{0}}} {
		require.NoError(t, b.Check(plain))
	}
	require.NoError(t, good().Check(classes))
	require.NoError(t, on(nil, &model.Condition{Class: 2}).Check(classes))
	require.NoError(t, on(nil, &model.Condition{Class: model.NoClass}).Check(classes))
	require.NoError(t, on(nil, &model.Condition{KnownPositions: []int32{0, 3}}).Check(plain))
	require.NoError(t, on(&model.Condition{Prompt: text},
		&model.Condition{Prompt: text}).Check(prompts))

	edit := func(f func(b *model.Batch)) *model.Batch { b := good(); f(b); return b }
	for _, c := range []struct {
		want string
		spec model.Spec
		b    *model.Batch
	}{
		{"length is 5, want 1 to 4", plain, &model.Batch{Size: 1, Length: 5, Tokens: make([]int32, 5)}},
		{"length is 3, want 4", fixed, &model.Batch{Size: 1, Length: 3, Tokens: make([]int32, 3)}},
		{"a batch of 2 x 4 has 7 tokens, want 8", plain,
			edit(func(b *model.Batch) { b.Tokens = b.Tokens[:7] })},
		{"token 3 of sequence 1 is 10, want 0 to 8 or the mask 9", plain,
			edit(func(b *model.Batch) { b.Tokens[7] = 10 })},
		{"token 0 of sequence 0 is -1, want 0 to 8", plain,
			edit(func(b *model.Batch) { b.Tokens[0] = -1 })},
		{"a batch of 2 has 1 times, want as many", plain,
			edit(func(b *model.Batch) { b.Time = []float64{1} })},
		{"a batch of 2 has 3 lengths", plain, edit(func(b *model.Batch) { b.Lengths = []int{1, 2, 3} })},
		{"length of sequence 1 is 5, want 1 to 4", plain,
			edit(func(b *model.Batch) { b.Lengths = []int{1, 5} })},
		{"a batch of 2 has 1 conditions", plain, on(nil)},
		{"a batch of 2 has 1 places", plain, edit(func(b *model.Batch) { b.Places = []int{1} })},
		{"sequence 1 of length 4 is at place 2 of a cache of 2 x 4", plain, edit(func(b *model.Batch) {
			b.Cache, b.Places = &kvcache.Cache{Batch: 2, Length: 4}, []int{1, 2}
		})},
		{"sequence 1: class is 3, want 0 to 2, or -1 for none", classes,
			on(nil, &model.Condition{Class: 3})},
		{"class is 1, want none", plain, on(nil, &model.Condition{Class: 1})},
		{"there is no prompt, want one", prompts, good()},
		{"there is a prompt, want none", plain, on(nil, &model.Condition{Prompt: text})},
		{"the prompt has 1 numbers, want 2 x 1", prompts,
			on(&model.Condition{Prompt: text},
				&model.Condition{Prompt: &model.Prompt{Rows: 2, Width: 1, States: make([]float32, 1)}})},
		{"given position 1 is 0, want ascending ones of 0 to 3", plain,
			on(nil, &model.Condition{KnownPositions: []int32{1, 0}})},
	} {
		require.ErrorContains(t, c.b.Check(c.spec), c.want)
	}
}

func TestDerivedOnceForAKey(t *testing.T) {
	p := new(model.Prompt)
	calls := 0
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			require.Equal(t, i%2, p.Derive(i%2, func() any { calls++; return i % 2 }))
		})
	}
	group.Wait()
	require.Equal(t, 2, calls)
}
