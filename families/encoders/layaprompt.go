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
	State        string
	KeepEnd      bool // the state is cut at its beginning where it is too long, not at its end
}

// LayaPrompt is a question as tokens.
type LayaPrompt struct {
	Tokens        []int32
	MaskPositions []int32  // positions of the options' masks
	Notes         []string // what was cut off
	kind          int32
}

// Bounds of the published program.
const (
	maxOptionTokens = 48 // most tokens of an option, beside its mask
	minHeadTokens   = 16 // tokens of the head that options leave, or they are cut
)

// EncodeQuestion returns the tokens of a question:
//
//	[CLS] KIND question: INSTRUCTIONS [SEP] {[MASK] OPTION} [SEP] STATE [SEP]
//
// What is too long is cut as in the published program, and noted. Unlike there, spellings of
// special tokens are plain text. It returns an error if the options do not fit.
func (l *Laya) EncodeQuestion(q LayaQuestion) (p LayaPrompt, err error) {
	p.kind = int32(slices.Index(layaKinds, q.Kind))
	t := l.m.cfg.tokens.tokenizer
	mask := l.m.cfg.Mask
	shown, _ := t.Token(mask)
	encode := func(text string) []int32 {
		ids, failed := t.Encode(strings.ReplaceAll(text, shown, " "))
		err = cmp.Or(err, failed)
		return ids
	}
	note := func(what string, cut bool) {
		if cut {
			p.Notes = append(p.Notes, what)
		}
	}
	top := encode(q.Kind + " question: " + q.Instructions)
	left := l.agent.HeadLongest
	options := make([][]int32, len(q.Options))
	for i, text := range q.Options {
		ids := encode(" " + text)
		note(fmt.Sprintf("option %d was cut to %d tokens", i+1, maxOptionTokens),
			len(ids) > maxOptionTokens)
		options[i] = append([]int32{mask}, ids[:min(len(ids), maxOptionTokens)]...)
		left -= len(options[i])
	}
	if left < minHeadTokens && len(options) > 0 {
		most := max(4, (l.agent.HeadLongest-minHeadTokens)/len(options))
		left = l.agent.HeadLongest
		for i, o := range options {
			options[i] = o[:min(len(o), most)]
			left -= len(options[i])
			note(fmt.Sprintf("options %d and %d are the same after each was cut to %d tokens",
				i, i+1, most), i > 0 && slices.Equal(options[i-1], options[i]))
		}
		note(fmt.Sprintf("options were cut to %d tokens each", most), true)
	}
	keep := max(8, left)
	note("instructions were cut", len(top) > keep)
	p.Tokens = append(append([]int32{l.cls}, top[:min(len(top), keep)]...), l.sep)
	for _, o := range options {
		p.MaskPositions = append(p.MaskPositions, int32(len(p.Tokens)))
		p.Tokens = append(p.Tokens, o...)
	}
	p.Tokens = append(p.Tokens, l.sep)
	state := encode(q.State)
	room := max(0, l.agent.Longest-len(p.Tokens)-1)
	note(fmt.Sprintf("the state was cut from %d to %d tokens", len(state), room), len(state) > room)
	if q.KeepEnd {
		state = state[max(0, len(state)-room):]
	}
	p.Tokens = append(append(p.Tokens, state[:min(len(state), room)]...), l.sep)
	p.Tokens = p.Tokens[:min(len(p.Tokens), l.agent.Longest)]
	n := len(p.MaskPositions)
	if err == nil && (n == 0 || int(p.MaskPositions[n-1]) >= l.agent.Longest) {
		err = &param.Error{Name: "options", Found: fmt.Sprintf("%d", n), Reason: param.TooLong,
			Want: fmt.Sprintf("options that fit in %d tokens", l.agent.Longest)}
	}
	return p, err
}
