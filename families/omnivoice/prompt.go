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

var controlTexts = [controls]string{"<|denoise|>", "<|lang_start|>", "<|lang_end|>",
	"<|instruct_start|>", "<|instruct_end|>", "<|text_start|>", "<|text_end|>"}

// noneText stands for a language or an instruction that is not given.
const noneText = "None"

// Utterance is what a sequence says, and how.
type Utterance struct {
	Text     string
	Language string // an id, as FindLanguage returns it; "": the model guesses
	Design   string // a designed voice, as ParseDesign returns it; "": any voice
	Voice    *Voice // that it continues, nil: none
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

// PromptTokens returns the ids of a prompt. Each tag, such as [laughter], is encoded alone.
func (m *Model) PromptTokens(s Utterance) (ids []int32, err error) {
	put := func(texts ...string) {
		for _, text := range texts {
			var part []int32
			if err == nil {
				part, err = m.tokenizer.Encode(text)
			}
			ids = append(ids, part...)
		}
	}
	before := ""
	if s.Voice != nil {
		before = s.Voice.Text
		ids = append(ids, m.controlIDs[denoise])
	}
	ids = append(ids, m.controlIDs[langStart])
	put(cmp.Or(s.Language, noneText))
	ids = append(ids, m.controlIDs[langEnd], m.controlIDs[instructStart])
	put(cmp.Or(s.Design, noneText))
	ids = append(ids, m.controlIDs[instructEnd], m.controlIDs[textStart])
	put(splitTags(CleanText(s.Text, before))...)
	return append(ids, m.controlIDs[textEnd]), err
}

// Prompt returns the rows before the frames of a sequence.
func (m *Model) Prompt(s Utterance) (*model.Prompt, error) {
	ids, err := m.PromptTokens(s)
	if err != nil {
		return nil, param.WithName("text", err)
	}
	var voice []int32
	if s.Voice != nil {
		if voice = s.Voice.Codes; len(voice)%m.codebooks != 0 {
			return nil, fmt.Errorf("voice has %d codes, want frames of %d", len(voice), m.codebooks)
		}
		for i, code := range voice {
			if code < 0 || int(code) >= m.codes {
				return nil, fmt.Errorf("voice has code %d at frame %d, want 0 to %d", code, i/m.codebooks,
					m.codes-1)
			}
		}
	}
	p := &model.Prompt{Rows: len(ids) + len(voice)/m.codebooks, Width: m.Trunk.Hidden()}
	if p.Rows > maxPrompt {
		return nil, &param.Error{Name: "text", Found: fmt.Sprintf("%d tokens and frames of a voice",
			p.Rows), Want: fmt.Sprintf("at most %d", maxPrompt), Reason: param.TooLong}
	}
	p.States = make([]float32, p.Rows*p.Width)
	for i, id := range ids {
		if err := m.Trunk.EmbedToken(p.States[i*p.Width:][:p.Width], id); err != nil {
			return nil, err
		}
	}
	for i := range len(voice) / m.codebooks {
		m.embedFrame(p.States[(len(ids)+i)*p.Width:][:p.Width], voice[i*m.codebooks:][:m.codebooks])
	}
	return p, nil
}

// Condition returns the condition of a sequence. Guidance leads away from frames without anything
// before them.
func (m *Model) Condition(s Utterance) (*model.Condition, error) {
	p, err := m.Prompt(s)
	if err != nil {
		return nil, err
	}
	return &model.Condition{Prompt: p, Unconditional: &model.Condition{Prompt: new(model.Prompt)}}, nil
}

// Prompts implements model.Prompter, of texts in any voice; "" is nothing before the frames.
func (m *Model) Prompts(ctx context.Context, texts []string) ([]*model.Prompt, error) {
	var list []*model.Prompt
	for _, text := range texts {
		p := new(model.Prompt)
		err := ctx.Err()
		if text != "" && err == nil {
			p, err = m.Prompt(Utterance{Text: text})
		}
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}
