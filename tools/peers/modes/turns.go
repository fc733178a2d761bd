//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"unmask/generate"
	"unmask/kvcache"
	"unmask/model"
)

// message is the positions of a message of the conversation, answer those of a reply.
const message, answer = 64, 16

// conversation times a conversation, each turn without and with a store of what was said before,
// and prints the ratio. Replies are decoded from left to right.
func conversation(m model.Denoiser, turns int) error {
	r, err := generate.ParseRecipe("low-confidence reuse=causal block-size=1")
	if err != nil {
		return err
	}
	store := kvcache.NewStore(1 << 32)
	var said []int32
	var alone, kept float64
	fmt.Printf("\nturn  positions   seconds  with a store\n")
	for turn := range turns {
		for i := range message {
			said = append(said, int32(200+(i*61+turn)%(vocab-200)))
		}
		request := generate.Request{Recipe: r,
			Known: append(slices.Clone(said), slices.Repeat([]int32{m.Spec().Mask}, answer)...)}
		want, without, err := timed(m, nil, request)
		if err != nil {
			return err
		}
		got, with, err := timed(m, store, request)
		if err != nil {
			return err
		}
		if !slices.Equal(want, got) {
			return fmt.Errorf("turn %d has other tokens with a store", turn+1)
		}
		said, alone, kept = got, alone+without, kept+with
		fmt.Printf("%4d  %9d  %8.2f  %12.2f\n", turn+1, len(said), without, with)
	}
	fmt.Printf("all              %8.2f  %12.2f  %.2f of the time\n", alone, kept, kept/alone)
	return nil
}

// timed makes a sequence and returns its tokens and the seconds that it took.
func timed(m model.Denoiser, store *kvcache.Store, r generate.Request) (tokens []int32,
	seconds float64, err error) {
	pool, err := generate.NewPool(m, generate.PoolOptions{Size: 1, Length: len(r.Known), Store: store})
	if err != nil {
		return nil, 0, err
	}
	q, err := pool.Add(r)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	for !q.Done {
		if _, err := pool.Step(context.Background()); err != nil {
			return nil, 0, err
		}
	}
	return slices.Clone(q.Tokens), time.Since(began).Seconds(), q.Err
}
