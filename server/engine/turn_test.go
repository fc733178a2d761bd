package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An owner with much work of its own does not keep another's work or call from its turn.
func TestOwnersTakeTurns(t *testing.T) {
	s := newSetup(t, 10)
	go s.engine.Run()
	first, err := s.engine.AwaitTurn(t.Context(), "a", s.now)
	require.NoError(t, err)
	served := make(chan string, 5)
	use := func(owner string, since time.Time) {
		go func() {
			end, err := s.engine.AwaitTurn(t.Context(), owner, since)
			if err == nil {
				served <- owner
				end()
			}
		}()
	}
	for range 3 {
		use("a", s.now)
	}
	require.Eventually(t, func() bool { return s.engine.WaitingTurns() == 3 }, time.Minute,
		time.Millisecond)
	use("b", s.now.Add(time.Second))
	require.Eventually(t, func() bool { return s.engine.WaitingTurns() == 4 }, time.Minute,
		time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.engine.AwaitTurn(ctx, "c", s.now)
	require.ErrorIs(t, err, context.Canceled)
	c, _, err := s.calls.Begin(s.call(1, time.Hour))
	require.NoError(t, err)
	first()
	require.Equal(t, "b", <-served) // a has had a turn
	for range 3 {
		require.Equal(t, "a", <-served)
	}
	require.NoError(t, c.Wait(t.Context()))
}
