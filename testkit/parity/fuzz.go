package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
)

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
