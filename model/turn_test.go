package model

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// A turn is taken before the model's lock and ends after it; its error is the caller's.
func TestTurnsAndLocks(t *testing.T) {
	refused := errors.New("refused")
	_, err := Turn(func(context.Context) (func(), error) { return nil, refused }).Acquire(t.Context(),
		nil)
	require.ErrorIs(t, err, refused)

	ended := 0
	turn := Turn(func(context.Context) (func(), error) { return func() { ended++ }, nil })
	for _, turn := range []Turn{turn, nil} {
		done, err := turn.Acquire(t.Context(), nil)
		require.NoError(t, err)
		require.Zero(t, ended)
		done()
		require.Equal(t, turn != nil, ended == 1)
		ended = 0
	}
}
