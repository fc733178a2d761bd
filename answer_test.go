package unmask_test

import (
	"context"
	"encoding/json"
	"flag"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
	"unmask/generate"
	"unmask/prompt"
	"unmask/samplers"
	"unmask/testkit/refusal"
	"unmask/tokenizers/chat"
)

// A prompt and its answer are tokenized as one text, and fill a sequence of fixed length with
// masks.
func TestAnswer(t *testing.T) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	for _, c := range [][2]string{{"Lily was a brave", " girl."}, {"Lily was a bra", "ve girl."},
		{"", "Lily"}} {
		tokens, from, to, err := m.TokensWithAnswer(t.Context(), unmask.Request{Prompt: c[0]}, c[1], nil)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(m.Text.Decode(tokens[:to]), c[0]+c[1]))
		require.Equal(t, c[1], m.Text.Decode(tokens[from:to]))
		require.Equal(t, len(tokens)-to, m.Spec().CountMasked(tokens))
	}
	q, err := m.Prepare(t.Context(), unmask.Request{Prompt: "Lily was a brave", Length: 40})
	require.NoError(t, err)
	beginning := unmask.Request{Prompt: "Lily was a brave"}
	tokens, from, _, err := m.TokensWithAnswer(t.Context(), beginning, " girl.", nil)
	require.NoError(t, err)
	require.Equal(t, q.Known[:from], tokens[:from]) // as a generation begins

	for want, r := range map[string]unmask.Request{
		"prompt and tokens together, want one of them": {Prompt: "a", Tokens: []int32{1}},
		"answer is 2 tokens":                           {Tokens: make([]int32, m.Spec().Length()-2)},
		"the model has no chat template, want chat_template.jinja or tokenizer_config.json beside " +
			"its weights": {Messages: json.RawMessage(`[]`)},
	} {
		_, _, _, err := m.TokensWithAnswer(t.Context(), r, " girl.", nil)
		refusal.RequireText(t, err, want)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	long := strings.Repeat("Once upon a time ", 1000)
	_, _, _, err = m.TokensWithAnswer(gone, unmask.Request{Prompt: long}, " girl.", nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = m.Prepare(gone, unmask.Request{Infill: long + "[2]"})
	require.ErrorIs(t, err, context.Canceled)
	_, _, _, err = m.TokensWithAnswer(t.Context(), unmask.Request{Prompt: "a"}, "", nil)
	refusal.Require(t, err, "answer", "0 tokens")
}

// withTemplate returns the embedded text model with a chat template beside its weights.
func withTemplate(t testing.TB, template string) fs.FS {
	files := fstest.MapFS{"chat_template.jinja": {Data: []byte(template)}}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		data, err := fs.ReadFile(demo.Text(), name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: data}
	}
	return files
}

func TestChat(t *testing.T) {
	o := unmask.Options{Backend: plain.New()}
	m, err := unmask.LoadFS(withTemplate(t,
		"{% for m in messages %}The {{ m.role }}. {{ m.content }}\n{% endfor %}"), "x", o)
	require.NoError(t, err)
	asked := func(text string, length int) (unmask.Request, generate.Request, error) {
		messages, err := json.Marshal([]chat.Message{{Role: "user", Content: text}})
		require.NoError(t, err)
		r := unmask.Request{Messages: messages, Length: length}
		q, err := m.Prepare(t.Context(), r)
		return r, q, err
	}
	r, q, err := asked("To be [MASK]", 0)
	require.NoError(t, err)
	require.NotContains(t, q.Known[:m.AnswerOf(&r, &q).From], m.Spec().Mask) // a text, and no mask

	known, err := m.Text.Encode("The user. To be\n")
	require.NoError(t, err)
	r, q, err = asked("To be", 0)
	require.NoError(t, err)
	a := m.AnswerOf(&r, &q)
	require.Equal(t, known, q.Known[:a.From]) // nothing is put around a conversation
	require.Len(t, q.Known, a.From+unmask.ReplyLength)
	require.Equal(t, unmask.ReplyLength, masked(q.Known, m))
	answer, err := m.Text.Encode("the answer")
	require.NoError(t, err)
	copy(q.Known[a.From:], answer)
	require.Equal(t, "the answer▯", a.Render(q.Known).Text[:len("the answer▯")])
	require.Equal(t, "the answer", a.Settled(q.Known, len(q.Known)))
	require.Equal(t, "the", a.Settled(q.Known, a.From+1))
	require.Empty(t, a.Settled(q.Known, 0))
	_, q, err = asked("To be", 40)
	require.NoError(t, err)
	require.Len(t, q.Known, 40)
	_, _, err = asked("To be", len(known))
	refusal.Require(t, err, "messages", "9 tokens")

	plainModel, picture := loadDemos(t)
	_, err = plainModel.Chat()
	refusal.RequireText(t, err, "the model has no chat template")
	_, err = picture.Chat()
	refusal.RequireText(t, err, "the model makes no text")
}

// A character of several tokens has an entry for each, with its own bytes, and places count
// characters.
func TestTokensOfAnAnswer(t *testing.T) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	const text = "ok é🙂!"
	ids, err := m.Text.Encode(text)
	require.NoError(t, err)
	require.Greater(t, len(ids), utf8.RuneCountInString(text))
	for _, c := range []struct {
		name, stop, want string
		tokens           int
	}{
		{"whole", "no", text, len(ids)},
		{"up to a character of several tokens", "🙂", "ok é", len(ids) - 5},
		{"up to nothing", "ok", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := unmask.Request{MaxTokens: len(ids),
				Constraints: prompt.Constraints{Stop: []string{c.stop}}}
			q, err := m.Prepare(t.Context(), r)
			require.NoError(t, err)
			a := m.AnswerOf(&r, &q)
			a.HidePrompt()
			tokens := append([]int32(nil), q.Known...)
			copy(tokens[a.From:], ids)
			shown := a.Render(tokens[:a.From+len(ids)])
			require.Equal(t, c.want, shown.Text)
			list := shown.Tokens()
			require.Len(t, list, c.tokens)
			require.Equal(t, c.tokens, shown.Count())
			bytes := ""
			for _, one := range list {
				require.Equal(t, utf8.RuneCountInString(strings.ToValidUTF8(bytes, "")), one.Offset)
				bytes += one.Bytes
			}
			require.Equal(t, c.want, bytes)
		})
	}
}

// An ordinary text that the chat template puts after an answer ends one.
func TestTemplateEndsAnswers(t *testing.T) {
	m, err := unmask.LoadFS(withTemplate(t, "{% for m in messages %}{{ m.content }}"+
		"{% if m.role == 'assistant' %}[/Answer]{% endif %}{% endfor %}"), "x",
		unmask.Options{Backend: plain.New()})
	require.NoError(t, err)
	r := unmask.Request{Messages: json.RawMessage(`[{"role": "user", "content": "To be"}]`), Length: 32}
	q, err := m.Prepare(t.Context(), r)
	require.NoError(t, err)
	a := m.AnswerOf(&r, &q)
	require.Contains(t, a.StopTexts, "[/Answer]")
	ids, err := m.Text.Encode("Lily.[/Answer] Tom.")
	require.NoError(t, err)
	tokens := append(slices.Clone(q.Known[:a.From]), ids...)
	for len(tokens) < len(q.Known) {
		tokens = append(tokens, ids[0])
	}
	require.Equal(t, "Lily.", strings.TrimSpace(a.Render(tokens).Text))
}

var update = flag.Bool("update", false, "rewrite the golden files with what this build gives")

// goldenCaches maps samplers to the intermediate stages of their steps.
var goldenCaches = map[string]int{"random": 1, "vanilla": 0, "maskgit": 0, "moment": 1,
	"u-moment": 2, "temp": 0, "halton": 1, "hybrid": 1}

const goldenLength, goldenSteps, goldenCount = 16, 5, 3

// goldenRun is the run of a golden text.
func goldenRun(sampler string, cache, batch int) samples {
	r := unmask.Request{Seed: 20, Length: goldenLength,
		Overrides: evenly(sampler, cache, goldenSteps)}
	return samples{Request: r, N: goldenCount, Batch: batch}
}

// evenly returns the settings of a run with the schedule uniform, where a schedule has an effect.
func evenly(sampler string, cache, steps int) unmask.Overrides {
	o := unmask.Overrides{"sampler": sampler, "cache": strconv.Itoa(cache),
		"steps": strconv.Itoa(steps)}
	if s, err := samplers.Parse(sampler); err == nil && samplers.UsesSchedule(s) {
		o["schedule"] = "uniform"
	}
	return o
}

// The same seed gives the same tokens, frozen in a file, for every sampler on the embedded model,
// any batch size and any number of threads.
func TestGoldenText(t *testing.T) {
	path := filepath.Join("testdata", "golden", "text.json")
	golden := map[string][][]int32{}
	if !*update {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &golden))
	}
	for _, how := range []struct{ batch, threads int }{{1, 1}, {2, 2}, {32, 3}} {
		m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Threads: how.threads})
		require.NoError(t, err)
		for name, cache := range goldenCaches {
			got := tokens(t, m, goldenRun(name, cache, how.batch))
			if *update && how.batch == 1 {
				golden[name] = got
			}
			require.Equalf(t, golden[name], got, "%s, batch %d, %d threads", name, how.batch, how.threads)
		}
	}
	if *update {
		data, err := json.Marshal(golden)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, append(data, '\n'), 0o666))
	}
}

// A run that begins at a later sequence gives the bytes of that sequence.
func TestSequencesDependOnSeedAndIndexAlone(t *testing.T) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	run := samples{N: 5, Batch: 2, Request: unmask.Request{Seed: 9, Length: 24,
		Overrides: unmask.Overrides{"sampler": "moment", "cache": "1", "steps": "6"}}}
	all := tokens(t, m, run)
	run.Index, run.N = 3, 2
	require.Equal(t, all[3:], tokens(t, m, run))
}

// samples are N sequences of a request, Batch at once.
type samples struct {
	unmask.Request
	N, Batch int
}

// generateSamples is unmask.Generate with a batch of a chosen size, which must change nothing.
func generateSamples(
	ctx context.Context, m *unmask.Model, run samples) iter.Seq2[*unmask.Step, error] {
	return func(yield func(*unmask.Step, error) bool) {
		q, err := m.Prepare(ctx, run.Request)
		if err != nil {
			yield(nil, err)
			return
		}
		options := generate.Options{Request: q, N: run.N, Batch: run.Batch}
		generate.Run(ctx, m.Denoiser, options)(yield)
	}
}

func tokens(t *testing.T, m *unmask.Model, run samples) [][]int32 {
	var out [][]int32
	for step, err := range generateSamples(context.Background(), m, run) {
		require.NoError(t, err)
		if step.Done {
			for _, s := range step.Sequences {
				out = append(out, append([]int32(nil), s.Tokens...))
			}
		}
	}
	return out
}
