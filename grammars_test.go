package unmask_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
)

// Models that decode from left to right, or change the length of a text, follow a grammar with
// another run than their own; asked for their own with a grammar, they refuse.
func TestGrammarsOfAllModels(t *testing.T) {
	const regex = `((2[0-9]|1(3[0-9]|40)) ){8}`
	for _, pack := range []string{"nemotron-labs-tiny", "wedlm-7b-tiny", "wedlm-8b-tiny",
		"dreamon-tiny", "sdar-tiny", "llada-tiny"} {
		m, err := unmask.LoadFS(os.DirFS("testdata/packs/"+pack), pack,
			unmask.Options{Backend: plain.New()})
		require.NoError(t, err)
		r := unmask.Request{Infill: "12[8]13", Seed: 1}
		r.Regex = regex
		for _, made := range tokens(t, m, unmask.Run{Request: r, N: 2}) {
			require.Regexp(t, "12 "+regex+"13", m.Text.Decode(made), pack)
		}
		if own, _ := m.Defaults(); own.Reuse.String() == "causal" {
			r.Overrides = unmask.Overrides{"reuse": "causal"}
			_, err = m.Prepare(t.Context(), r)
			require.ErrorContains(t, err, "grammar is given, want none with reuse causal", pack)
		}
		if m.Spec().Growth != nil {
			_, err = m.Prepare(t.Context(), unmask.Request{Infill: "12[?]13",
				Constraints: unmask.Constraints{Grammar: unmask.Grammar{Regex: "(20 )*"}}})
			require.ErrorContains(t, err, "grammar is given, want none with", pack)
		}
	}
}
