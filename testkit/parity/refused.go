package parity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
)

// Refused requires that config.json of a pack with a change is refused in one line. A change is
// what to replace, by what, and a part of the error.
func Refused(t *testing.T, open func(testing.TB, string) *Pack, pack string, changes ...[3]string) {
	t.Helper()
	for _, c := range changes {
		p := open(t, pack)
		require.Contains(t, string(p.Config), c[0])
		p.Config = []byte(strings.Replace(string(p.Config), c[0], c[1], 1))
		_, err := model.Load(p.Source, model.Options{Backend: plain.New()})
		require.ErrorContains(t, err, c[2])
		require.NotContains(t, err.Error(), "\n")
	}
}
