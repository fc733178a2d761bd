package parity

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/model"
)

// CheckThreads checks that a sequence's logits have the same bytes alone, in any batch and on any
// number of threads, in every precision, in a full pass and in a partial one over the refined
// positions.
func CheckThreads(t *testing.T, pack string, refined []int) {
	p := Open(t, pack)
	tokens, shape := p.Ints("tokens")
	_, wantShape := p.Floats("logits")
	n := shape[1]
	columns := wantShape[2]
	const sequences = 32

	// The batch repeats the pack's sequences, each time with one more open position.
	var batch []int32
	for s := range sequences {
		batch = append(batch, tokens[s%shape[0]*n:][:n]...)
		for i := range s / shape[0] {
			batch[s*n+i] = int32((s + i) % (columns - 1))
		}
	}

	for precision := backend.F32; precision <= backend.Int8; precision++ {
		// reference are the logits of each sequence in the first computation, on one thread alone:
		// every other computation must equal them.
		var reference [][]float32
		for _, threads := range []int{1, 2, 3, 16} {
			l, err := model.Load(p.Source,
				model.Options{Backend: cpu.New(cpu.Options{Threads: threads}), Precision: precision})
			require.NoError(t, err)
			m := l.Denoiser.(model.Refiner)
			for _, size := range []int{1, 2, 7, sequences} {
				got := runInBatches(t, m, batch, n, size, refined, columns)
				if reference == nil {
					reference = got
				}
				for i, logits := range got {
					require.Equal(t, reference[i], logits, fmt.Sprintf(
						"%v, sequence %d, a batch of %d, %d threads", precision, i, size, threads))
				}
			}
		}
	}
}

// runInBatches returns the logits of passes over sequences of n tokens, `size` at a time. Sequences
// that do not fill a last batch are left out, because a smaller batch is another case.
func runInBatches(t *testing.T, m model.Refiner, tokens []int32, n, size int, refined []int,
	columns int) (all [][]float32) {
	for part := range slices.Chunk(tokens, n*size) {
		if len(part) == n*size {
			all = append(all, runPasses(t, m, part, size, refined, columns)...)
		}
	}
	return all
}

// runPasses returns each sequence's logits of a full pass and then of a partial one.
func runPasses(t *testing.T, m model.Refiner, tokens []int32, size int, refined []int,
	columns int) [][]float32 {
	n := len(tokens) / size
	b := Batch(append([]int32(nil), tokens...), []int{size, n})
	b.Cache = m.NewCache(size, n)
	got, err := m.Forward(context.Background(), b)
	require.NoError(t, err)
	full := Logits(t, got, Count(size*n), columns)

	var rows []int32
	for s := range size {
		for _, pos := range refined {
			b.Tokens[s*n+pos] = 7
			rows = append(rows, int32(s*n+pos))
		}
	}
	got, err = m.Refine(context.Background(), b, rows)
	require.NoError(t, err)
	part := Logits(t, got, rows, columns)

	logits := make([][]float32, size)
	for s := range logits {
		k := len(refined) * columns
		logits[s] = append(full[s*n*columns:(s+1)*n*columns:(s+1)*n*columns], part[s*k:(s+1)*k]...)
	}
	return logits
}
