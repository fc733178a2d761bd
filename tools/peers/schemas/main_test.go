package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A schema passes if what it allows is what its instances say, and is refused by name otherwise.
func TestVerdicts(t *testing.T) {
	const rows = `
{"schema": {"type": "integer"}, "tests": [{"valid": true, "data": 7}, {"valid": false, "data": "7"}]}
{"schema": {"enum": ["é"]}, "tests": [{"valid": true, "data": "é"}, {"valid": true, "data": "e"}]}
{"schema": {"unevaluatedProperties": false}, "tests": []}`
	var out strings.Builder
	require.NoError(t, run("../../../testdata/packs/tokenizer-dreamon-tiny/tokenizer.json",
		strings.NewReader(strings.TrimSpace(rows)), &out))
	var got []string
	for d := json.NewDecoder(strings.NewReader(out.String())); d.More(); {
		var v verdict
		require.NoError(t, d.Decode(&v))
		got = append(got, v.Verdict)
		if v.Verdict == "refused" {
			require.Contains(t, v.Reason, "unevaluatedProperties")
		}
	}
	require.Equal(t, []string{"ready", "pass", "wrong", "refused"}, got)
}
