package decide

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/tokenizers"
)

// countingTokenizer counts the bytes that it encodes.
type countingTokenizer struct {
	tokenizers.Tokenizer
	bytes int
}

func (c *countingTokenizer) Encode(text string) ([]int32, error) {
	c.bytes += len(text)
	return c.Tokenizer.Encode(text)
}

func (c *countingTokenizer) EncodeSpecial(text string) ([]int32, error) {
	c.bytes += len(text)
	return c.Tokenizer.EncodeSpecial(text)
}

// firstRound returns the pairs of the first round of a question with n options, in both orders.
func firstRound(n int) (prompts []prompt) {
	for i := 0; i+1 < n; i += 2 {
		prompts = append(prompts, prompt{pair: []int{i, i + 1}}, prompt{pair: []int{i + 1, i}})
	}
	return prompts
}

// A question with many options has the tokens of prompts that are encoded whole, but the state is
// encoded only a few times for all of them.
func TestStateIsEncodedOnce(t *testing.T) {
	text, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Threads: 1})
	require.NoError(t, err)
	chat, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	question := Question{Kind: Choice, Instructions: "who is it", Options: makeOptions(26)}
	for i := range 20 {
		label := "m" + string(rune('a'+i)) + strings.Repeat("z", i%3)
		question.Options = append(question.Options, Option{Label: label})
	}

	for name, m := range map[string]*unmask.Model{"text": text, "chat": chat, "encoder": bert(t)} {
		t.Run(name, func(t *testing.T) {
			const sentence = "it was a hot day and she ran. "
			for _, state := range []string{
				strings.Repeat(sentence, 8),
				strings.Repeat(sentence, 8) + strings.Repeat("\n", 3),
				strings.Repeat("1.", 90), // no blank at which it could be divided
				"it is.",
			} {
				a := &asker{
					m:         m,
					state:     State{Text: state},
					chat:      name == "chat",
					questions: []Question{question},
					shared:    map[Form]*sharedState{},
				}
				for _, p := range firstRound(len(question.Options)) {
					whole, err := a.encodeState(t.Context(), state, p)
					require.NoError(t, err)
					e, err := a.encodePrompt(t.Context(), p)
					require.NoError(t, err)
					require.Equal(t, whole, e)
				}
			}
		})
	}

	m := bert(t)
	counting := &countingTokenizer{Tokenizer: m.Text.Tokenizer}
	m.Text.Tokenizer = counting
	state := strings.Repeat("it was a hot day and she ran. ", 40)
	a := &asker{
		m:         m,
		state:     State{Text: state},
		questions: []Question{question},
		shared:    map[Form]*sharedState{},
	}
	prompts := firstRound(len(question.Options))
	for _, p := range slices.Concat(prompts, prompts) {
		_, err := a.buildQuery(t.Context(), p)
		require.NoError(t, err)
	}
	require.NotEmpty(t, a.shared[Letters].end, "a prompt about the end has other tokens")
	whole := 2 * len(state) // a prompt is encoded with its answer and without
	require.Less(t, counting.bytes, 20*whole+2*len(prompts)*3*400)
	require.Less(t, a.shared[Letters].whole, 10)
}

// Many questions have the tokens of prompts that are encoded whole, but the state is encoded only a
// few times for all of them, whatever their lengths, by letters and by whole answers.
func TestStateIsEncodedOnceForAllQuestions(t *testing.T) {
	m := bert(t)
	counting := &countingTokenizer{Tokenizer: m.Text.Tokenizer}
	m.Text.Tokenizer = counting
	state := strings.Repeat("it was a hot day and she ran. ", 40)
	a := &asker{
		m:      m,
		state:  State{Text: state},
		shared: map[Form]*sharedState{},
	}
	var prompts []prompt
	for i := range 100 {
		instructions := "who is it" + strings.Repeat(" now", i%17)
		question := Question{Kind: Choice, Instructions: instructions, Options: makeOptions(2 + i%3)}
		a.questions = append(a.questions, question)
		prompts = append(prompts, prompt{question: i})
	}
	for _, i := range a.longestFirst(prompts) {
		e, err := a.encodePrompt(t.Context(), prompts[i])
		require.NoError(t, err)
		before := counting.bytes
		whole, err := a.encodeState(t.Context(), state, prompts[i])
		counting.bytes = before
		require.NoError(t, err)
		require.Equal(t, whole, e)

		text := a.questions[i].answerTexts()[0]
		_, err = a.encodeAnswer(t.Context(), i, text)
		require.NoError(t, err)
	}
	require.Less(t, a.shared[Letters].whole, 5)
	require.Less(t, counting.bytes, 60*len(state)+100*6*600)
}

// A tokenizer whose tokens depend on all of a text is found out: prompts are encoded whole then.
func TestStateIsEncodedWhole(t *testing.T) {
	m := bert(t)
	m.Text.Tokenizer = &farsighted{m.Text.Tokenizer}
	state := strings.Repeat("it was a hot day and she ran. ", 12)
	a := &asker{
		m:         m,
		state:     State{Text: state},
		questions: []Question{{Kind: Choice, Instructions: "who", Options: makeOptions(26)}},
		shared:    map[Form]*sharedState{},
	}
	for _, p := range firstRound(26) {
		whole, err := a.encodeState(t.Context(), state, p)
		require.NoError(t, err)
		e, err := a.encodePrompt(t.Context(), p)
		require.NoError(t, err)
		require.Equal(t, whole, e)
	}
	require.Empty(t, a.shared[Letters].end)
}

// farsighted gives a text's first token by what the text ends in.
type farsighted struct{ tokenizers.Tokenizer }

func (f *farsighted) Encode(text string) ([]int32, error) {
	ids, err := f.Tokenizer.Encode(text)
	if err == nil && len(ids) > 1 && strings.Contains(text, "A. na") {
		ids = slices.Clone(ids)
		ids[0] = ids[1]
	}
	return ids, err
}
