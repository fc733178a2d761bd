package parity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
)

// CheckRefused requires that config.json of a pack with a change is refused in one line. A change
// is what to replace, by what, and a part of the error.
func CheckRefused(t *testing.T, open func(testing.TB, string) *Pack, pack string,
	changes ...[3]string) {
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

// FuzzConfig loads a pack with any config.json: the result is a network or codec, or a one-line
// error. seeds are texts in addition to the pack's own.
func FuzzConfig(f *testing.F, p *Pack, load func(src *model.Source, o model.Options) error,
	seeds ...string) {
	f.Add(p.Config)
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	b := plain.New()
	f.Fuzz(func(t *testing.T, data []byte) {
		src := *p.Source
		src.Config = data
		if err := load(&src, model.Options{Backend: b}); err != nil {
			require.NotContains(t, err.Error(), "\n")
		}
	})
}

// LoadDenoiser is a load function for FuzzConfig, for networks that are registered.
func LoadDenoiser(src *model.Source, o model.Options) error {
	_, err := model.Load(src, o)
	return err
}
