package turns_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/internal/turns"
)

func TestOwnersTakeTurns(t *testing.T) {
	all := turns.New(2)
	back, err := all.Take(t.Context(), "a", 2)
	require.NoError(t, err)
	served := make(chan string, 4)
	wait := func(owner string) {
		go func() {
			back, err := all.Take(t.Context(), owner, 2)
			if err == nil {
				served <- owner
				back()
			}
		}()
	}
	for i, owner := range []string{"a", "a", "a", "b"} {
		wait(owner)
		require.Eventually(t, func() bool { return all.Waiting() == i+1 }, time.Second, time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = all.Take(ctx, "c", 1)
	require.ErrorIs(t, err, context.Canceled)
	back()
	require.Equal(t, "b", <-served) // a has had its turn
	for range 3 {
		require.Equal(t, "a", <-served)
	}
}
