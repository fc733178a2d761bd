package omnivoice

import (
	"cmp"
	"context"
	"fmt"

	"unmask/model"
	"unmask/param"
	"unmask/tokenizers"
)

// The control tokens of a prompt.
const (
	denoise = iota // before a prompt with a voice
	langStart
	langEnd
	instructStart
	instructEnd
	textStart
	textEnd
	controls
)

// controlTexts are the control tokens' texts in the vocabulary.
var controlTexts = [controls]string{"<|denoise|>", "<|lang_start|>", "<|lang_end|>",
	"<|instruct_start|>", "<|instruct_end|>", "<|text_start|>", "<|text_end|>"}

// noneText stands for a language or a design that is left open.
const noneText = "None"

// Utterance is what a sequence says, and how.
type Utterance struct {
	Text string

	// Language is an id, as FindLanguage returns it. With "" the model guesses.
	Language string

	// Design describes a voice, as ParseDesign returns it. With "" it may be any voice.
	Design string

	// Voice is a voice that the sequence continues, and nil for none.
	Voice *Voice
}

// setTokenizer finds the control tokens. Their spellings in a user's text are text.
func (m *Model) setTokenizer(t tokenizers.Tokenizer) error {
	for i, spelling := range controlTexts {
		id, ok := t.Special(spelling)
		if !ok || int(id) >= m.Trunk.VocabSize() {
			return fmt.Errorf("the tokenizer has no token %s, want one below %d", spelling,
				m.Trunk.VocabSize())
		}
		m.controlIDs[i] = id
	}
	m.tokenizer = t
	return nil
}

// PromptTokens returns the ids of a prompt. Each tag, such as [laughter], is encoded alone, as the
// model was trained: together with the words around it, it would become other tokens.
func (m *Model) PromptTokens(u Utterance) (ids []int32, err error) {
	encode := func(texts ...string) {
		for _, text := range texts {
			var part []int32
			if err == nil {
				part, err = m.tokenizer.Encode(text)
			}
			ids = append(ids, part...)
		}
	}
	voiceText := ""
	if u.Voice != nil {
		voiceText = u.Voice.Text
		ids = append(ids, m.controlIDs[denoise])
	}
	ids = append(ids, m.controlIDs[langStart])
	encode(cmp.Or(u.Language, noneText))
	ids = append(ids, m.controlIDs[langEnd], m.controlIDs[instructStart])
	encode(cmp.Or(u.Design, noneText))
	ids = append(ids, m.controlIDs[instructEnd], m.controlIDs[textStart])
	encode(splitTags(CleanText(u.Text, voiceText))...)
	return append(ids, m.controlIDs[textEnd]), err
}

// Prompt returns the rows before the frames of a sequence: its tokens, and the frames of the voice
// that it continues.
func (m *Model) Prompt(u Utterance) (*model.Prompt, error) {
	ids, err := m.PromptTokens(u)
	if err != nil {
		return nil, param.WithName("text", err)
	}
	var codes []int32
	if u.Voice != nil {
		codes = u.Voice.Codes
		if err := m.checkVoiceCodes(codes); err != nil {
			return nil, err
		}
	}
	frames := len(codes) / m.codebooks
	p := &model.Prompt{Rows: len(ids) + frames, Width: m.Trunk.Hidden()}
	if p.Rows > maxPrompt {
		return nil, &param.Error{
			Name: "text",
			Found: fmt.Sprintf("%d tokens and frames of a voice",
				p.Rows),
			Want:   fmt.Sprintf("at most %d", maxPrompt),
			Reason: param.TooLong,
		}
	}

	p.States = make([]float32, p.Rows*p.Width)
	row := func(i int) []float32 { return p.States[i*p.Width:][:p.Width] }
	for i, id := range ids {
		if err := m.Trunk.EmbedToken(row(i), id); err != nil {
			return nil, err
		}
	}
	for i := range frames {
		m.embedFrame(row(len(ids)+i), codes[i*m.codebooks:][:m.codebooks])
	}
	return p, nil
}

// checkVoiceCodes returns an error for codes of a voice that the network does not have.
func (m *Model) checkVoiceCodes(codes []int32) error {
	if len(codes)%m.codebooks != 0 {
		return fmt.Errorf("voice has %d codes, want frames of %d", len(codes), m.codebooks)
	}
	for i, code := range codes {
		if code < 0 || int(code) >= m.codes {
			return fmt.Errorf("voice has code %d at frame %d, want 0 to %d", code, i/m.codebooks,
				m.codes-1)
		}
	}
	return nil
}

// Condition returns the condition of a sequence. Guidance leads away from frames without anything
// before them.
func (m *Model) Condition(u Utterance) (*model.Condition, error) {
	p, err := m.Prompt(u)
	if err != nil {
		return nil, err
	}
	return &model.Condition{Prompt: p, Unconditional: &model.Condition{Prompt: new(model.Prompt)}}, nil
}

// Prompts implements model.Prompter: the prompts of texts in any voice. That of "" is empty.
func (m *Model) Prompts(ctx context.Context, texts []string) ([]*model.Prompt, error) {
	var prompts []*model.Prompt
	for _, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := new(model.Prompt)
		if text != "" {
			var err error
			if p, err = m.Prompt(Utterance{Text: text}); err != nil {
				return nil, err
			}
		}
		prompts = append(prompts, p)
	}
	return prompts, nil
}
