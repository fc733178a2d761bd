package scores

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/testkit/parity"
)

func loadESM(t *testing.T) *unmask.Model {
	m, err := unmask.Load(context.Background(), filepath.Join("..", "..", "testdata", "packs",
		"esm-tiny"), unmask.Options{})
	require.NoError(t, err)
	return m
}

// X and the gap, which are never drawn, have the log-probabilities of transformers' EsmForMaskedLM,
// and the perplexity is finite. That of B, which may be drawn, is among what may be drawn.
func TestLettersNeverDrawn(t *testing.T) {
	m := loadESM(t)
	tokens, err := EncodeText(m, "MKXAY-BK")
	require.NoError(t, err)
	s, err := ScoreTokens(context.Background(), m, tokens, 0, Options{})
	require.NoError(t, err)
	require.InDelta(t, -10.3176853, s.LogP[2], 2e-5)
	require.InDelta(t, -14.8374466, s.LogP[5], 2e-5)
	require.Greater(t, s.LogP[6], -5.1307275)
	require.False(t, math.IsInf(s.Perplexity(), 0))
	scored, _ := s.CountRight()
	require.Equal(t, len(tokens), scored)
}

// Log-odds are those of EsmForMaskedLM (transformers 5.24, float32): masked marginals mask all
// positions of a mutation at once, which is not the sum of single mutations (-5.0450).
func TestLogOdds(t *testing.T) {
	m := loadESM(t)
	tokens, err := EncodeText(m, "MKXAY-BK")
	require.NoError(t, err)
	var list []Mutation
	for _, name := range []string{"K2X", "K2A", "Y5L:K2A:A4G", "K2A:Y5L:A4G", "X3K"} {
		one, err := ParseMutation(m.Text, tokens, name)
		require.NoError(t, err)
		list = append(list, one)
	}
	for visible, want := range map[bool][]float64{
		false: {-0.9098382, 4.2647977, -3.6327367, -3.6327367, 0.8525211},
		true:  {-0.4105215, -3.6704171, -17.0908251, -17.0908251, 3.3374499},
	} {
		odds, err := LogOdds(context.Background(), m, tokens, list, visible)
		require.NoError(t, err)
		require.InDeltaSlice(t, want, odds, 5e-5, "visible %v", visible)
	}
}

func TestParseRefuses(t *testing.T) {
	m := loadESM(t)
	tokens, err := EncodeText(m, "MKXAY")
	require.NoError(t, err)
	for name, want := range map[string]string{
		"A2":          `mutation is "A2", want one such as A24G`,
		"M1A:":        `mutation is "", want one such as A24G`,
		"M9A":         "mutation M9A is at position 9, want 1 to 5",
		"M0A":         "mutation M0A is at position 0, want 1 to 5",
		"A2G":         "mutation A2G: position 2 has K, want A",
		"M1A:M1G":     "mutation M1A:M1G: position 1 is changed twice, want once",
		"M1A:K2G:M1A": "mutation M1A:K2G:M1A: position 1 is changed twice, want once",
		"M1?":         "mutation M1?: text: character 1 is '?'",
	} {
		_, err := ParseMutation(m.Text, tokens, name)
		require.ErrorContains(t, err, want, name)
	}
}

// Scores and log-odds of weights that overflow are refused: numbers that are not finite never
// leave.
func TestNumbersAreFinite(t *testing.T) {
	for _, value := range []float64{math.Inf(1), math.Inf(-1), 3e38} {
		m, err := unmask.Load(t.Context(), parity.Poison(t, "esm-tiny", "embed", float32(value)),
			unmask.Options{})
		require.NoError(t, err)
		tokens, err := EncodeText(m, "MKTAYIAK")
		require.NoError(t, err)
		for _, passes := range []int{-1, 0, 1} {
			_, err = ScoreTokens(t.Context(), m, tokens, 0, Options{Passes: passes})
			require.ErrorContains(t, err, "want finite numbers", "%v in %d passes", value, passes)
		}
		mutation, err := ParseMutation(m.Text, tokens, "K2A")
		require.NoError(t, err)
		for _, visible := range []bool{false, true} {
			_, err = LogOdds(t.Context(), m, tokens, []Mutation{mutation}, visible)
			require.ErrorContains(t, err, "want finite numbers", "%v, visible %v", value, visible)
		}
	}
}
