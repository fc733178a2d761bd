package demo_test

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/generate"
)

var (
	answerModel = flag.String("answers-model", "", "a folder; by default the embedded model")
	answerCount = flag.Int("answers", 3, "dialogues of TestDemoAnswers, of 100")
)

// weighed returns the model in a folder or, if that is "", an embedded one.
func weighed(t *testing.T, folder string, embedded fs.FS) *unmask.Model {
	if folder != "" {
		embedded = os.DirFS(folder)
	}
	m, err := unmask.LoadFS(embedded, "demo", unmask.Options{})
	require.NoError(t, err)
	return m
}

// The demo answers nine in ten of the dialogues right: 97 of all 100 (-answers 100).
func TestDemoAnswers(t *testing.T) {
	m := weighed(t, *answerModel, demo.Chat())
	list := readDialogues(t, "dialogues.jsonl")[:*answerCount]
	requests, answers := make([]generate.Request, len(list)), make([]*unmask.Answer, len(list))
	for i, d := range list {
		r := unmask.Request{Messages: d.messages(), Seed: 1, Index: uint32(i)}
		var err error
		requests[i], err = m.Prepare(t.Context(), r)
		require.NoError(t, err)
		answers[i] = m.AnswerOf(&r, &requests[i])
	}
	right, byKind := 0, map[string][2]int{}
	for step, err := range generate.Each(t.Context(), m.Denoiser, generate.PoolOptions{Size: 8},
		slices.Values(requests)) {
		require.NoError(t, err)
		for _, p := range step.Sequences {
			if !p.Done {
				continue
			}
			d := list[p.Number]
			answer := answers[p.Number].Shown(p.Tokens).Text
			count := byKind[d.Kind]
			count[1]++
			if d.right(answer) {
				right++
				count[0]++
			} else {
				t.Logf("%s: %q\nwant %q\ngot  %q", d.Kind, d.Turns[len(d.Turns)-2],
					d.Turns[len(d.Turns)-1], answer)
			}
			byKind[d.Kind] = count
		}
	}
	t.Logf("%d of %d right, by kind %v", right, len(list), byKind)
	require.GreaterOrEqual(t, right, (len(list)*9+9)/10)
}

// Facts by a schema are valid and right under samplers of every kind.
func TestDemoFactsBySchema(t *testing.T) {
	const word = `{"type": "string", "pattern": "^[a-z]+$"}`
	const name = `{"type": "string", "pattern": "^[A-Z][a-z]+$"}`
	const schema = `{"type": "object", "additionalProperties": false,
		"required": ["name", "animal", "place", "object", "color"],
		"properties": {"name": ` + name + `, "animal": ` + word + `, "place": ` + word + `,
			"object": ` + word + `, "color": ` + word + `}}`
	m, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{})
	require.NoError(t, err)
	samplers, asked := []string{"p2", "random", "moment", "halton"}, 0
	for i, d := range readDialogues(t, "dialogues.jsonl") {
		if d.Kind != "facts" || asked == len(samplers) {
			continue
		}
		data, err := json.Marshal(map[string]any{"sampler": samplers[asked],
			"schema": json.RawMessage(schema), "seed": i, "steps": 16,
			"messages": d.messages()})
		require.NoError(t, err)
		var request unmask.Request
		require.NoError(t, json.Unmarshal(data, &request))
		r, err := m.Prepare(t.Context(), request)
		require.NoError(t, err)
		for step, err := range generate.Each(t.Context(), m.Denoiser, generate.PoolOptions{Size: 1},
			slices.Values([]generate.Request{r})) {
			require.NoError(t, err)
			if p := step.Sequences[0]; p.Done {
				answer := m.AnswerOf(&request, &r).Shown(p.Tokens).Text
				require.True(t, d.right(answer), "%s: %q", samplers[asked], answer)
			}
		}
		asked++
	}
}
