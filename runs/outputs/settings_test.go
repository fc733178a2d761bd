package outputs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	oracle "unmask/exact"
	"unmask/generate"
	"unmask/runs"
	"unmask/runs/outputs"
	"unmask/samplers"
)

// Settings compare runs by meaning, not by spelling.
func TestSettings(t *testing.T) {
	d := oracle.NewDenoiser(oracle.Product(8, 3, 1, 1))
	settings := func(o generate.Options) runs.Settings {
		o, err := o.Check(d)
		require.NoError(t, err)
		return outputs.NewSettings("m", "f32", o.Request)
	}
	base := settings(generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 4}}})
	require.Equal(t, base,
		settings(generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 4}}, N: 100,
			Batch: 7}))
	for name, o := range map[string]generate.Options{
		"seed":  {Request: generate.Request{Recipe: generate.Recipe{Steps: 4}, Seed: 1}},
		"steps": {Request: generate.Request{Recipe: generate.Recipe{Steps: 5}}},
		"known": {Request: generate.Request{Recipe: generate.Recipe{Steps: 4}, Known: []int32{1, 3, 3,
			3, 3, 3, 3, 3}}},
	} {
		require.NotEqual(t, base[name], settings(o)[name], name)
	}
	// An old run with semi-ar goes on with its own blocks alone.
	semi := func(even int) runs.Settings {
		return settings(generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 4,
			Sampler: samplers.SemiAR{Block: 4, Even: even}}}})
	}
	require.Equal(t, "semi-ar(block=4)", semi(1)["sampler"])
	require.Equal(t, semi(0)["sampler"], semi(1)["sampler"])
	require.NotEqual(t, semi(0), semi(1))
}
