package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"unmask"
	"unmask/model"
	"unmask/param"
)

// encoded is a prompt with its answer: tokens[from:to] are the answer's.
type encoded struct {
	tokens []int32
	from   int
	to     int

	// textBytes is the length of the prompt's text.
	textBytes int
}

// buildQuery returns the tokens of a prompt that ends in a masked letter.
func (a *asker) buildQuery(ctx context.Context, p prompt) (Query, error) {
	options := len(p.pair)
	if p.pair == nil {
		options = len(a.questions[p.question].optionTexts())
	}
	labels, err := a.encodeLetters(ctx, options)
	if err != nil {
		return Query{}, err
	}
	e, err := a.encodePrompt(ctx, p)
	if err != nil {
		return Query{}, nameState(err)
	}
	return Query{Tokens: a.maskAnswer(e), Position: e.from, Labels: labels}, nil
}

// encodeState returns the tokens of a prompt about a state, with A for its answer.
func (a *asker) encodeState(ctx context.Context, state string, p prompt) (e encoded, err error) {
	question := &a.questions[p.question]
	options := question.optionTexts()
	if p.pair != nil {
		options = model.Pick(options, p.pair)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", state, question.Instructions)
	for i, text := range options {
		fmt.Fprintf(&b, "\n%c. %s", 'A'+i, text)
	}
	b.WriteString("\n\nAnswer with the letter of one option.")
	return a.encodeText(ctx, b.String(), letter(0))
}

// encodeText returns the tokens of a prompt, through the chat template if there is one, with an
// answer.
func (a *asker) encodeText(ctx context.Context, text, answer string) (e encoded, err error) {
	request := unmask.Request{}
	if a.chat {
		messages, err := json.Marshal([]map[string]string{{"role": "user", "content": text}})
		if err != nil {
			return e, err
		}
		request.Messages = messages
	} else {
		text += "\nAnswer:"
		request.Prompt = text
	}
	e.textBytes = len(text)
	e.tokens, e.from, e.to, err = a.m.TokensWithAnswer(ctx, request, a.afterPrompt(answer), nil)
	return e, err
}

// letter returns the i-th letter.
func letter(i int) string { return string(rune('A' + i)) }

// afterPrompt returns an answer as it follows a prompt: without a chat template, a space stands
// before it.
func (a *asker) afterPrompt(answer string) string {
	if a.chat {
		return answer
	}
	return " " + answer
}

// maskAnswer returns the tokens of a prompt with a mask in place of its answer.
func (a *asker) maskAnswer(e encoded) []int32 {
	spec := a.m.Spec()
	masks := slices.Repeat([]int32{spec.Mask}, e.to-e.from)
	if !spec.Fixed {
		masks = masks[:1]
	}
	tokens := slices.Concat(e.tokens[:e.from], masks, e.tokens[e.to:])

	// Some models were trained with whole blocks only. Generation opens their last block from masks,
	// so the prompt ends in a whole block here too.
	wholeBlocks := spec.Block > 0 && spec.Blocks == model.WholeBlocks && !spec.Fixed
	for wholeBlocks && len(tokens)%spec.Block > 0 && len(tokens) < spec.Length() {
		tokens = append(tokens, spec.Mask)
	}
	return tokens
}

// encodeLetters returns the tokens of the first n letters, as they stand at the end of a prompt.
func (a *asker) encodeLetters(ctx context.Context, n int) ([][]int32, error) {
	short := unmask.Request{Prompt: "Answer:"}
	if a.chat {
		short.Prompt = ""
	}
	for i := len(a.letters); i < n; i++ {
		tokens, start, end, err := a.m.TokensWithAnswer(ctx, short, a.afterPrompt(letter(i)), nil)
		if err != nil {
			return nil, err
		}
		a.letters = append(a.letters, slices.Clone(tokens[start:end]))
	}
	return a.letters[:n:n], nil
}

// nameState names the state in an error about a prompt that leaves no room for an answer: users
// give a state and a question, and never see the prompt.
func nameState(err error) error {
	e, ok := errors.AsType[*param.Error](err)
	if !ok || e.Reason != param.TooLong {
		return err
	}
	return &param.Error{
		Name:   "state",
		Found:  "too long",
		Want:   e.Want + " tokens with its question",
		Reason: e.Reason,
	}
}

// sharedState has the tokens of the state, for all prompts about it. A question with many options
// takes two prompts for each pair of them, 508 for 255 options, a request over HTTP has up to 400
// questions, and all prompts begin with the same document.
//
// How the document ends depends on what follows it only within the last word or so. So a prompt
// about the document is one about the document's end, with other tokens in front: those that
// differ between a prompt about the whole and the same prompt about the end alone. No tokenizer
// promises this, so the second prompt, and each that is longer than the ones before it, is encoded
// whole and compared; after a difference all prompts are encoded whole.
type sharedState struct {
	// end is the end of the state, from a blank on; "" where prompts are encoded whole.
	end string

	// head are the first tokens of a prompt about the whole state, and endHead those of the same
	// prompt about its end. What follows them is equal.
	head    []int32
	endHead []int32

	// whole counts the prompts that were encoded whole.
	whole int

	// textBytes and tokens are the most that a prompt encoded whole had. A longer one is encoded
	// whole, because only that finds out whether it is within the model's limits.
	textBytes int
	tokens    int
}

// minEnd is the least length of the end of a state in bytes: several words, so that those beside
// the question have the neighbours that they have in the whole state.
const minEnd = 128

// newSharedState returns what the prompts about a state share before the first one is encoded.
func newSharedState(state string, spec model.Spec) *sharedState {
	s := &sharedState{}

	// The end begins at a blank, so that no word is cut in two.
	blank := strings.LastIndexFunc(state[:max(len(state)-minEnd, 0)], unicode.IsSpace)

	// A sequence of a fixed length is filled up with masks by the length of its text.
	if blank > 0 && !spec.Fixed {
		s.end = state[blank:]
	}
	return s
}

// encodePrompt returns the tokens of a prompt that ends in a letter.
func (a *asker) encodePrompt(ctx context.Context, p prompt) (encoded, error) {
	return a.encodeShared(Letters, func(state string) (encoded, error) {
		return a.encodeState(ctx, state, p)
	})
}

// encodeShared returns what encode returns for the whole state, and calls it with the whole state
// only where it must, see sharedState. Prompts of a form have the same text after the state.
func (a *asker) encodeShared(form Form, encode func(state string) (encoded, error)) (encoded,
	error) {
	s := a.shared[form]
	if s == nil {
		s = newSharedState(a.state.Text, a.m.Spec())
		a.shared[form] = s
	}
	if s.end == "" {
		return encode(a.state.Text)
	}

	short, err := encode(s.end)
	if err != nil {
		return encode(a.state.Text)
	}
	short.textBytes += len(a.state.Text) - len(s.end)
	joined, ok := s.join(short)
	if ok && s.whole > 1 && joined.textBytes <= s.textBytes && len(joined.tokens) <= s.tokens {
		return joined, nil
	}

	whole, err := encode(a.state.Text)
	if err != nil {
		return whole, err
	}
	if s.whole == 0 {
		s.setHeads(whole.tokens, short.tokens)
	} else if !ok || !slices.Equal(joined.tokens, whole.tokens) || joined.from != whole.from {
		s.end = ""
	}
	s.whole++
	s.textBytes = max(s.textBytes, whole.textBytes)
	s.tokens = max(s.tokens, len(whole.tokens))
	return whole, nil
}

// setHeads sets the heads from the tokens of one prompt about the whole state and about its end.
func (s *sharedState) setHeads(whole, short []int32) {
	equal := 0
	for equal < min(len(whole), len(short)) &&
		whole[len(whole)-1-equal] == short[len(short)-1-equal] {
		equal++
	}
	s.head = slices.Clone(whole[:len(whole)-equal])
	s.endHead = slices.Clone(short[:len(short)-equal])
}

// join returns a prompt about the whole state from the same prompt about its end; ok is false if
// the latter does not begin as the others do.
func (s *sharedState) join(short encoded) (whole encoded, ok bool) {
	n := len(s.endHead)
	if s.whole == 0 || len(short.tokens) < n || short.from < n ||
		!slices.Equal(short.tokens[:n], s.endHead) {
		return whole, false
	}
	shift := len(s.head) - n
	return encoded{
		tokens:    slices.Concat(s.head, short.tokens[n:]),
		from:      short.from + shift,
		to:        short.to + shift,
		textBytes: short.textBytes,
	}, true
}
