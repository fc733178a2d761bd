package server_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/model"
	"unmask/server"
)

// Tokens that make a pass fail where a sequence begins with fails and one of them.
const (
	fails  = 5
	panics = 1000
	isNaN  = 1001
)

// gate is the demo's network behind a gate: passes wait until they are let through, and fail where
// a sequence has a token that makes them.
type gate struct {
	model.Refiner

	mu     sync.Mutex
	open   bool
	let    *sync.Cond
	left   int     // passes that may go through
	waits  int     // passes that wait
	passes [][]int // lengths of the sequences of each pass
}

func newGate(of model.Denoiser) *gate {
	g := &gate{Refiner: of.(model.Refiner), open: true}
	g.let = sync.NewCond(&g.mu)
	return g
}

// Locker implements model.Locker: the network is shared with other tests' servers.
func (g *gate) Locker() sync.Locker { return model.LockOf(g.Refiner) }

func (g *gate) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	g.mu.Lock()
	var lengths []int
	for i := range b.Size {
		lengths = append(lengths, b.Length)
		if b.Lengths != nil {
			lengths[i] = b.Lengths[i]
		}
	}
	g.passes = append(g.passes, lengths)
	for g.waits++; !g.open && g.left == 0; {
		g.let.Broadcast()
		g.let.Wait()
	}
	g.left = max(0, g.left-1)
	g.waits--
	g.mu.Unlock()
	for row := 0; row < len(b.Tokens); row += b.Length {
		if b.Tokens[row] != fails {
			continue
		}
		switch b.Tokens[row+1] {
		case panics:
			panic("out of order")
		case isNaN:
			return nil, &model.RowError{Row: int32(row + 1), Err: fmt.Errorf("a logit is NaN")}
		}
	}
	return g.Refiner.Forward(ctx, b)
}

// shut lets no pass through any more.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = false
}

// unshut lets all through.
func (g *gate) unshut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
	g.let.Broadcast()
}

// pass lets n passes through.
func (g *gate) pass(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left += n
	g.let.Broadcast()
}

// stuck returns when a pass waits at the gate.
func (g *gate) stuck() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.waits == 0 {
		g.let.Wait()
	}
}

// seen returns the lengths of the sequences of all passes so far.
func (g *gate) seen() [][]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.passes)
}

// gated returns a server of a network behind a gate.
func gated(t testing.TB, o server.Options) (*gate, *server.Server, *httptest.Server) {
	return gatedAt(t, o, time.Now)
}

// stopped is a clock that only its tests move.
type stopped struct{ passed atomic.Int64 }

func (c *stopped) now() time.Time { return time.Unix(1e9, c.passed.Load()) }

func (c *stopped) add(d time.Duration) { c.passed.Add(int64(d)) }

// gatedAt is gated with a clock for the server's works and passes.
func gatedAt(t testing.TB, o server.Options, now func() time.Time) (*gate, *server.Server,
	*httptest.Server) {
	text := loaded()["demo"]
	g := newGate(text.Denoiser)
	m := unmask.NewModel(&model.Loaded{Denoiser: g, Kind: model.KindText,
		Tokenizer: text.Text.Tokenizer},
		text.Backend, nil)
	m.Name = "gated"
	s, err := server.New(o)
	require.NoError(t, err)
	s.Clock(now)
	require.NoError(t, s.Add(server.Model{Name: "gated", Model: m}))
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		g.unshut()
		h.Close()
		s.Close()
	})
	return g, s, h
}

// measurePace makes one pass of 256 rows for a key while the clock moves, so that the engine knows
// how long its rows take: 200 of them a second. It leaves the gate shut.
func measurePace(t testing.TB, g *gate, h *httptest.Server, key string, clock *stopped) {
	g.shut()
	passes := len(g.seen())
	answered := laterBy(t, key, h.URL+"/v1/completions",
		`{"prompt":"A","max_tokens":255,"steps":1,"seed":9}`)
	g.stuck()
	clock.add(256 * time.Second / 200)
	g.pass(1)
	got := <-answered
	require.Equal(t, 200, got.status, "%s", got.data)
	require.Len(t, g.seen(), passes+1)
}
