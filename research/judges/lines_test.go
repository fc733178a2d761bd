package judges_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/research/experiments"
	"unmask/research/judges"
	"unmask/research/metrics"
)

// padding is a judge that knows a pad, as one whose config.json has a pad_token_id.
type padding struct{ metrics.Judge }

func (padding) SpecialTokens() []int32 { return []int32{2} }

// Pads are no part of a text: they change none of its measures.
func TestPadsDoNotCount(t *testing.T) {
	judge, err := judges.LoadTextJudge(t.Context(), "oracle:product:length=8,tokens=3",
		judges.Options{})
	require.NoError(t, err)
	measure := func(lines string) experiments.Metrics {
		s := &experiments.TextScorer{Judge: padding{judge}}
		_, _, err := judges.ScoreLines(t.Context(), s, strings.NewReader(lines), nil)
		require.NoError(t, err)
		m, err := s.Metrics(t.Context())
		require.NoError(t, err)
		return m
	}
	with := measure(`{"id":0,"seed":1,"ids":[0,1,1,2,2,0,2,2,0,1]}`)
	require.Equal(t, measure(`{"id":0,"seed":1,"ids":[0,1,1,0,0,1]}`), with)
	require.NotEqual(t, measure(`{"id":0,"seed":1,"ids":[0,1,1,0,0,0]}`), with)
}

// Errors about lines that are not samples, occur twice or are cut have the line's number.
func TestLinesThatAreNoSamples(t *testing.T) {
	judge, err := judges.LoadTextJudge(t.Context(), "oracle:product:length=8,tokens=3",
		judges.Options{})
	require.NoError(t, err)
	const good = `{"id":0,"seed":1,"ids":[0,1,2],"text":"abc"}` + "\n"
	score := func(text string) (n, short int, err error) {
		s := &experiments.TextScorer{Judge: judge}
		return judges.ScoreLines(t.Context(), s, strings.NewReader(text), nil)
	}
	n, short, err := score(good + `{"id":1,"seed":1,"ids":[2],"text":"c"}`)
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{n, short})
	for text, want := range map[string]string{
		good + good:                   "line 2: sample 0 of seed 1 is on line 1 already, want each once",
		good + "\n":                   "line 2: empty, want a JSON object",
		good + `{"id":1`:              "line 2: unexpected end of JSON input",
		`{"ids":[0,1]}`:               "line 1: id is missing",
		`{"id":3,"text":"a"}`:         "line 1: ids is missing",
		`{"id":3,"ids":[1,null]}`:     "line 1: ids: the id of token 1 is null, want an integer",
		`{"id":3,"ids":["x"]}`:        "line 1: ids: the value is a string, want an integer of 32 bits",
		`{"id":"x","ids":[1]}`:        "line 1: id is a string, want an integer of 64 bits",
		`{"id":3,"unfinished":true}`:  "line 1: an unfinished sample",
		good + `{"id":4,"ids":[9,9]}`: "want 0 to 2",
	} {
		_, _, err := score(text)
		require.ErrorContains(t, err, want, text)
	}
}
