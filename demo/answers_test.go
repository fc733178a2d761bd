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
	answerCount = flag.Int("answers", 2, "dialogues of each test of the demo that talks, of 100")
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

// answered returns the model's answers to dialogues, each of at most that many tokens or, with 0,
// of the default length.
func answered(t *testing.T, m *unmask.Model, list []dialogue, tokens int) []*unmask.Rendered {
	requests := make([]generate.Request, len(list))
	answers := make([]*unmask.Answer, len(list))
	for i, d := range list {
		r := unmask.Request{Messages: d.messages(), MaxTokens: tokens, Seed: 1, Index: uint32(i)}
		var err error
		requests[i], err = m.Prepare(t.Context(), r)
		require.NoError(t, err)
		answers[i] = m.AnswerOf(&r, &requests[i])
	}
	shown := make([]*unmask.Rendered, len(list))
	for step, err := range generate.Each(t.Context(), m.Denoiser, generate.PoolOptions{Size: 8},
		slices.Values(requests)) {
		require.NoError(t, err)
		for _, p := range step.Sequences {
			if p.Done {
				shown[p.Number] = answers[p.Number].Render(p.Tokens)
			}
		}
	}
	return shown
}

// count returns how many of the answers are as wanted, and logs the others.
func count(t *testing.T, list []dialogue, shown []*unmask.Rendered,
	wanted func(dialogue, string) bool) (right int) {
	byKind := map[string][2]int{}
	for i, d := range list {
		n := byKind[d.Kind]
		n[1]++
		if wanted(d, shown[i].Text) {
			right++
			n[0]++
		} else {
			t.Logf("%s: %s%q\nwant %q\ngot  %q", d.Kind, d.System, d.Turns[len(d.Turns)-2],
				d.Turns[len(d.Turns)-1], shown[i].Text)
		}
		byKind[d.Kind] = n
	}
	t.Logf("%d of %d right, by kind %v", right, len(list), byKind)
	return right
}

// The demo answers nine in ten of the dialogues right; TestDemoConversations has the figures.
func TestDemoAnswers(t *testing.T) {
	m := weighed(t, *answerModel, demo.Chat())
	list := readDialogues(t, "dialogues.jsonl")[:*answerCount]
	require.GreaterOrEqual(t, count(t, list, answered(t, m, list, 0), dialogue.right),
		95*len(list)/100)
}

// Of first turns and of later ones most have the answers that they want, and none has an empty one
// (-answers 100 -v prints how many).
func TestDemoConversations(t *testing.T) {
	m := weighed(t, *answerModel, demo.Chat())
	list := readDialogues(t, "conversations.jsonl")
	for _, part := range []struct {
		name  string
		list  []dialogue
		least int // of 100
	}{{"first", list[:100], 97}, {"later", list[100:], 90}} {
		asked := part.list[:*answerCount]
		shown := answered(t, m, asked, 0)
		for i, s := range shown {
			require.NotEmpty(t, s.Text, "%s %d", part.name, i)
		}
		fit := count(t, asked, shown, dialogue.fits)
		require.GreaterOrEqual(t, fit, part.least*len(asked)/100, part.name)
	}
}

// Stories come to their end within 96 positions and more, 95 in 100 of them.
func TestDemoStoriesEnd(t *testing.T) {
	m := weighed(t, *answerModel, demo.Chat())
	var list []dialogue
	for _, d := range readDialogues(t, "conversations.jsonl") {
		if (d.Kind == "tell" || d.Kind == "another") && len(list) < (*answerCount+1)/2 {
			list = append(list, d)
		}
	}
	for _, tokens := range []int{96, 128, 160, 256} {
		ended := 0
		for _, s := range answered(t, m, list, tokens) {
			if s.Finish == "stop" {
				ended++
			}
		}
		t.Logf("%d of %d end within %d tokens", ended, len(list), tokens)
		require.GreaterOrEqual(t, 100*ended, 95*len(list), tokens)
	}
}

// A greeting, of 16 tokens at most, costs no more than 20 passes: no step fills what is behind its
// end.
func TestDemoGreetsInFewPasses(t *testing.T) {
	m := weighed(t, *answerModel, demo.Chat())
	for seed := range uint64(5) {
		r := unmask.Request{Messages: []byte(`[{"role":"user","content":"Hello!"}]`), Seed: seed + 1}
		q, err := m.Prepare(t.Context(), r)
		require.NoError(t, err)
		answer := m.AnswerOf(&r, &q)
		for step, err := range generate.Each(t.Context(), m.Denoiser, generate.PoolOptions{Size: 1},
			slices.Values([]generate.Request{q})) {
			require.NoError(t, err)
			if s := step.Sequences[0]; s.Done {
				require.LessOrEqual(t, s.Work.Full, 20)
				require.LessOrEqual(t, answer.Render(s.Tokens).Count(), 16)
			}
		}
	}
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
				answer := m.AnswerOf(&request, &r).Render(p.Tokens).Text
				require.True(t, d.right(answer), "%s: %q", samplers[asked], answer)
			}
		}
		asked++
	}
}
