package encoders

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"unmask/param"
)

// layaKinds are the types of questions; a number is the row of the type's embedding.
var layaKinds = []string{"choice", "score", "noul"}

// LayaQuestion is a question in the words that the network was trained on.
type LayaQuestion struct {
	Kind         string // choice, score or noul
	Instructions string
	Options      []string // such as "label: description"
	State        []int32  // of EncodeState

	// KeepEnd says that a state that is too long loses its beginning, not its end.
	KeepEnd bool
}

// LayaPrompt is a question as tokens.
type LayaPrompt struct {
	Tokens []int32

	// MaskPositions are the positions of the options' masks.
	MaskPositions []int32

	// Notes say what was cut off.
	Notes []string

	kind int32 // index in layaKinds
}

// Bounds of the published program.
const (
	maxOptionTokens = 48 // tokens of an option, beside its mask
	minHeadTokens   = 16 // tokens of the head that options leave, or they are cut
)

// EncodeState returns the tokens of a state, for the questions about it.
func (l *Laya) EncodeState(state string) ([]int32, error) { return l.encodeText(state) }

// encodeText returns the tokens of a text in which the mask's spelling is a blank.
func (l *Laya) encodeText(text string) ([]int32, error) {
	t := l.m.cfg.tokens.tokenizer
	maskText, _ := t.Token(l.m.cfg.Mask)
	return t.Encode(strings.ReplaceAll(text, maskText, " "))
}

// EncodeQuestion returns the tokens of a question:
//
//	[CLS] KIND question: INSTRUCTIONS [SEP] {[MASK] OPTION} [SEP] STATE [SEP]
//
// What is too long is truncated as in the published program, with a note. Unlike there, spellings
// of special tokens are plain text, so that a state cannot add options. It returns an error if the
// options do not fit.
func (l *Laya) EncodeQuestion(q LayaQuestion) (p LayaPrompt, err error) {
	p.kind = int32(slices.Index(layaKinds, q.Kind))
	mask := l.m.cfg.Mask
	encode := func(text string) []int32 {
		ids, encodeErr := l.encodeText(text)
		err = cmp.Or(err, encodeErr)
		return ids
	}
	noteIf := func(truncated bool, note string) {
		if truncated {
			p.Notes = append(p.Notes, note)
		}
	}

	instructions := encode(q.Kind + " question: " + q.Instructions)
	left := l.agent.HeadLongest // tokens that the options leave to the instructions
	options := make([][]int32, len(q.Options))
	for i, text := range q.Options {
		ids := encode(" " + text)
		noteIf(len(ids) > maxOptionTokens,
			fmt.Sprintf("option %d was cut to %d tokens", i+1, maxOptionTokens))
		options[i] = append([]int32{mask}, ids[:min(len(ids), maxOptionTokens)]...)
		left -= len(options[i])
	}

	// Many options leave nothing to the instructions. Then all of them get the same, smaller share.
	if left < minHeadTokens && len(options) > 0 {
		share := max(4, (l.agent.HeadLongest-minHeadTokens)/len(options))
		left = l.agent.HeadLongest
		for i, option := range options {
			options[i] = option[:min(len(option), share)]
			left -= len(options[i])
			noteIf(i > 0 && slices.Equal(options[i-1], options[i]),
				fmt.Sprintf("options %d and %d are the same after each was cut to %d tokens", i, i+1, share))
		}
		noteIf(true, fmt.Sprintf("options were cut to %d tokens each", share))
	}
	left = max(8, left)
	noteIf(len(instructions) > left, "instructions were cut")

	p.Tokens = append([]int32{l.cls}, instructions[:min(len(instructions), left)]...)
	p.Tokens = append(p.Tokens, l.sep)
	for _, option := range options {
		p.MaskPositions = append(p.MaskPositions, int32(len(p.Tokens)))
		p.Tokens = append(p.Tokens, option...)
	}
	p.Tokens = append(p.Tokens, l.sep)

	state := q.State
	room := max(0, l.agent.Longest-len(p.Tokens)-1)
	noteIf(len(state) > room,
		fmt.Sprintf("the state was cut from %d to %d tokens", len(state), room))
	if q.KeepEnd {
		state = state[max(0, len(state)-room):]
	}
	p.Tokens = append(p.Tokens, state[:min(len(state), room)]...)
	p.Tokens = append(p.Tokens, l.sep)
	p.Tokens = p.Tokens[:min(len(p.Tokens), l.agent.Longest)]

	n := len(p.MaskPositions)
	if err == nil && (n == 0 || int(p.MaskPositions[n-1]) >= l.agent.Longest) {
		err = &param.Error{
			Name:   "options",
			Found:  fmt.Sprintf("%d", n),
			Reason: param.TooLong,
			Want:   fmt.Sprintf("options that fit in %d tokens", l.agent.Longest),
		}
	}
	return p, err
}
