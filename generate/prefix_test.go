package generate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/kvcache"
	"unmask/model"
	"unmask/testkit/parity"
)

// forgetful is a network whose passes use no keys and values of earlier ones: it computes all
// positions before the rows again.
type forgetful struct {
	model.Feeder
	of model.Locker
}

func (f forgetful) Locker() sync.Locker { return f.of.Locker() }

func (f forgetful) Feed(ctx context.Context, b *model.Batch, rows []int32,
	how model.Feeding) (model.Marginals, error) {
	whole := *b
	whole.Cache, whole.Places = f.NewCache(b.Size, b.Length), nil
	var before, all []int32
	first := make([]int, b.Size)
	for _, row := range slices.Backward(rows) {
		first[int(row)/b.Length] = int(row) % b.Length
	}
	ends := slices.Clone(b.Lengths)
	for s := range b.Size {
		for at := range ends[s] {
			row := int32(s*b.Length + at)
			if all = append(all, row); at < first[s] {
				before = append(before, row)
			}
		}
	}
	if how == model.Commit {
		return f.Feeder.Feed(ctx, &whole, all, how)
	}
	if len(before) > 0 {
		whole.Lengths, whole.ReadRows = first, []int32{}
		if _, err := f.Feeder.Feed(ctx, &whole, before, model.Commit); err != nil {
			return nil, err
		}
	}
	whole.Lengths, whole.ReadRows = ends, b.ReadRows
	return f.Feeder.Feed(ctx, &whole, rows, how)
}

// Kept keys and values change nothing: for packs, prompts, windows and blocks, samplers and
// temperatures, the text is that of passes that compute everything anew.
func TestPrefixCacheIsExact(t *testing.T) {
	for pack, recipes := range map[string][]string{
		"wedlm-7b-tiny": {"wedlm", "wedlm(window=1)", "wedlm(window=5, entropy=3, temperature=1)",
			"greedy(confidence) block-size=16", "random steps=3 block-size=4"},
		"wedlm-8b-tiny": {"wedlm(entropy=4, temperature=0.8)", "wedlm(window=3, penalty=0.5)",
			"threshold(theta=0.1) block-size=8"},
		"nemotron-labs-tiny": {"low-confidence block-size=1", "greedy(threshold(theta=0.2))",
			"self-speculation(block=8)"},
	} {
		p := parity.Open(t, pack)
		d := loaded(t, p, false).(model.Feeder)
		for i, tokens := range starts(d.Spec(), 21, 9) {
			recipe := recipes[i%len(recipes)] + " reuse=causal"
			if i%2 == 1 { // longer than the blocks of keys of a kernel
				for at := range 100 {
					tokens = append([]int32{int32(12 + 7*at%80)}, tokens...)
				}
			}
			r, err := generate.ParseRecipe(recipe)
			require.NoError(t, err)
			request := generate.Request{Recipe: r, Seed: uint64(i), Known: tokens}
			want, all := takeTurn(t, forgetful{d, d.(model.Locker)}, nil, request)
			got, some := takeTurn(t, d, nil, request)
			require.Equal(t, want, got, "%s, %s, start %d", pack, recipe, i)
			require.Equal(t, all, some)
		}
	}
}

// turn is what a sequence came to.
type turn struct {
	tokens []int32
	steps  int
	opened []string // of each step
}

// takeTurn generates one sequence in a pool of its own.
func takeTurn(t *testing.T, d model.Denoiser, store *kvcache.Store, r generate.Request) (got turn,
	work generate.Work) {
	t.Helper()
	pool, err := generate.NewPool(d, generate.PoolOptions{Size: 1, Store: store})
	require.NoError(t, err)
	q, err := pool.Add(r)
	require.NoError(t, err)
	for !q.Done {
		_, err := pool.Step(context.Background())
		require.NoError(t, err)
		require.NoError(t, q.Err)
		got.opened = append(got.opened, fmt.Sprint(q.Opened))
	}
	got.tokens, got.steps = slices.Clone(q.Tokens), q.N
	return got, q.Work
}

// Conversations whose turns begin with what was said before get the same tokens, log-probabilities
// and steps with a store and without, whatever it holds: with stores of several sizes, several
// conversations in turn, models whose final tokens are causal and models with blocks.
func TestConversationsContinue(t *testing.T) {
	for pack, recipes := range map[string][]string{
		"nemotron-labs-tiny": {"self-speculation reuse=causal", "low-confidence reuse=causal block-size=1",
			"greedy(threshold(theta=0.2)) reuse=causal", "self-speculation(block=4, temperature=0.8) reuse=causal"},
		"wedlm-7b-tiny": {"wedlm(temperature=1) reuse=causal",
			"greedy(confidence) reuse=causal block-size=16"},
		"wedlm-8b-tiny":     {"wedlm(entropy=3, window=5) reuse=causal"},
		"sdar-tiny":         {"dynamic(theta=0.2) schedule=llada steps=4 reuse=blocks", "entropy steps=2 reuse=blocks block-size=8"},
		"fast-dllm-v2-tiny": {"fast-dllm-v2(block=4) reuse=blocks", "fast-dllm-v2(block=4, cache=1) reuse=blocks"},
		"llada2-moe-tiny":   {"edit reuse=blocks", "dynamic(theta=0.1) schedule=llada steps=8 reuse=blocks"},
	} {
		p := parity.Open(t, pack)
		d := loaded(t, p, false)
		spec := d.Spec()
		for i, text := range recipes {
			recipe, err := generate.ParseRecipe(text)
			require.NoError(t, err)
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for _, room := range []int64{1 << 20, 100_000} {
				store := kvcache.NewStore(room)
				talks := make([][]int32, 3)
				recalled := 0
				for turns := range 12 {
					talk := &talks[r.IntN(len(talks))]
					if len(*talk) > min(spec.Length(), 200)-50 {
						*talk = (*talk)[:r.IntN(len(*talk))] // an earlier message is edited
					}
					for range 5 + r.IntN(30) {
						*talk = append(*talk, int32(12+r.IntN(80)))
					}
					known := append(slices.Clone(*talk), slices.Repeat([]int32{spec.Mask}, 1+r.IntN(12))...)
					request := generate.Request{Recipe: recipe, Seed: uint64(turns), Known: known}
					want, all := takeTurn(t, d, nil, request)
					got, some := takeTurn(t, d, store, request)
					require.Equal(t, want, got, "%s, %s, turn %d", pack, text, turns)
					require.LessOrEqual(t, store.Bytes(), room)
					require.LessOrEqual(t, some.Partial, all.Partial)
					recalled += some.Recalled
					*talk = want.tokens
				}
				require.Positive(t, recalled, "%s, %s", pack, text)
			}
		}
	}
}
