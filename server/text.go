package server

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"unmask/constrain"
	"unmask/generate"
	"unmask/samplers"
	"unmask/tokenizers"
	"unmask/tokenizers/chat"
)

// textForm selects the part of a sequence that is the answer, and its end.
type textForm struct {
	Base     int      // text is decoded from this position on
	From, To int      // positions that the answer is of
	Stops    []string // the text ends before the first of them
	Ends     []int32  // tokens that end the text
	Echo     int      // the answer's text begins here, with what was given; -1: at From
	LogProbs bool
	Calls    *chat.CallForm // how the text spells calls of functions, nil if it has none
	tokens   tokenizers.Tokenizer
	mask     int32
	language *constrain.Language // nil: any text
	length   int                 // of the tokens at the start; 0: it does not change
	most     int                 // positions that the model may make of a hole; 0: it does not decide
}

// answerForm returns the form of an answer that fills the one hole of a sequence.
func answerForm(m *servedModel, q generate.Request) textForm {
	f := textForm{From: slices.Index(q.Known, m.spec.Mask), Ends: q.Ends, Echo: -1, tokens: m.Text,
		mask: m.spec.Mask, length: len(q.Known), language: q.Language}
	f.To = f.From + m.spec.Masked(q.Known)
	if g, ok := samplers.As[samplers.Grower](q.Recipe.Sampler); ok && m.spec.Growth != nil {
		f.most = g.Growth().New
	}
	return f
}

// textChoice is one finished answer.
type textChoice struct {
	text string
	// stop where an end or a stop was found, the model chose the length, or a grammar made the text
	// whole; else length
	finish string
	tokens []int32
	pieces []string // of positions from..
	from   int
	logP   []float64
	top    [][]generate.Likely // nil: not asked for
	form   *textForm
}

// end returns the end of the answer's positions in tokens, which may have become longer or shorter.
func (f *textForm) end(tokens []int32) int {
	if f.length == 0 {
		return f.To
	}
	return f.To + len(tokens) - f.length
}

// choice returns the answer of a sequence, masked positions shown as holes.
func (f *textForm) choice(tokens []int32, logP []float64, top [][]generate.Likely) textChoice {
	to, finish := f.end(tokens), "length"
	limit := len(tokens)
	if to-f.From < f.most || f.language != nil && f.Calls == nil {
		finish = "stop"
	}
	ended := false
	if at := f.ending(tokens, to); at >= 0 {
		to, limit, finish, ended = at, at, "stop", true
	}
	from := f.From
	if f.Echo >= 0 {
		from = f.Echo
	}
	pieces := f.tokens.Pieces(tokens[f.Base:limit])
	given := strings.Join(pieces[from-f.Base:f.From-f.Base], "")
	text := strings.Join(pieces[f.From-f.Base:to-f.Base], "")
	if at := f.stop(text); at >= 0 {
		text, finish, ended = text[:at], "stop", true
	} else if f.language != nil {
		text = f.language.Trim(text)
	}
	if f.Echo >= 0 && !ended { // and what follows
		text += strings.Join(pieces[to-f.Base:], "")
	}
	return textChoice{text: given + text, finish: finish, tokens: tokens[from:to],
		pieces: pieces[from-f.Base : to-f.Base], from: from, logP: logP, top: top,
		form: f}
}

// count returns how many tokens of an answer are shown: up to its end or its stop, nothing of what
// is echoed, and no tokens without text, which fill a text up.
func (f *textForm) count(t *textChoice) (n int) {
	at := 0
	for i, piece := range t.pieces {
		if at >= len(t.text) && piece != "" {
			break
		}
		at += len(piece)
		if text, known := f.tokens.Token(t.tokens[i]); t.from+i >= f.From && (text != "" || !known) {
			n++
		}
	}
	return n
}

// ending returns the first position before to of a token that ends the text, -1 for none.
func (f *textForm) ending(tokens []int32, to int) int {
	for at := f.From; at < to; at++ {
		if slices.Contains(f.Ends, tokens[at]) {
			return at
		}
	}
	return -1
}

// stop returns where a text's first stop begins, -1 where there is none. Calls are not stopped.
func (f *textForm) stop(text string) int {
	if f.Calls != nil {
		text, _ = f.Calls.Read(text)
	}
	return firstStop(text, f.Stops)
}

// firstStop returns where the first of some texts begins, -1 where there is none.
func firstStop(text string, stops []string) int {
	first := -1
	for _, stop := range stops {
		if at := strings.Index(text, stop); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// heldBack returns how many bytes at the end of text may be the beginning of a stop.
func heldBack(text string, stops []string) (n int) {
	for _, stop := range stops {
		for k := min(len(stop)-1, len(text)); k > n; k-- {
			if strings.HasSuffix(text, stop[:k]) {
				n = k
				break
			}
		}
	}
	return n
}

// wholeRunes returns the largest position up to which the tokens from a position on are whole
// runes.
func (f *textForm) wholeRunes(tokens []int32, from, to int) int {
	var tail []byte
	for at := to; at > from && len(tail) < utf8.UTFMax; at-- {
		piece, ok := f.tokens.Token(tokens[at-1])
		if !ok {
			break
		}
		tail = append([]byte(piece), tail...)
	}
	start := len(tail) - 1
	for start > 0 && !utf8.RuneStart(tail[start]) {
		start--
	}
	if start < 0 || utf8.FullRune(tail[start:]) {
		return to
	}
	// The rune that is not whole begins in an earlier token, or in this one.
	for lost := len(tail) - start; to > from && lost > 0; to-- {
		piece, _ := f.tokens.Token(tokens[to-1])
		lost -= len(piece)
	}
	return to
}

// logProbs is OpenAI's list of the log-probabilities of tokens when they opened.
type logProbs struct {
	Tokens []string   `json:"tokens"`
	LogP   []*float64 `json:"token_logprobs"` // null where it is not known, as of what was given
	// null if not asked for; else by text, null where it is not known
	Top     []map[string]float64 `json:"top_logprobs"`
	Offsets []int                `json:"text_offset"`
}

func (c *textChoice) logProbs() *logProbs {
	out := &logProbs{Tokens: []string{}, LogP: []*float64{}, Offsets: []int{}}
	at := 0
	for i, piece := range c.pieces {
		if at >= len(c.text) && len(c.text) > 0 {
			break
		}
		out.Tokens = append(out.Tokens, piece)
		out.LogP = append(out.LogP, known(c.logP[c.from+i]))
		out.Offsets = append(out.Offsets, at)
		if c.top != nil {
			out.Top = append(out.Top, c.topOf(i))
		}
		at += len(piece)
	}
	return out
}

// topOf returns the most probable tokens of a position by text, and its own token, nil where they
// are not known. Of tokens with one text it has the most probable one.
func (c *textChoice) topOf(i int) map[string]float64 {
	list := c.top[c.from+i]
	if list == nil {
		return nil
	}
	if own := known(c.logP[c.from+i]); own != nil {
		list = append(slices.Clip(list), generate.Likely{Token: c.tokens[i], LogP: *own})
	}
	out := map[string]float64{}
	for _, l := range list {
		text, ok := c.form.tokens.Token(l.Token)
		text = strings.ToValidUTF8(text, "\ufffd")
		if _, has := out[text]; ok && !has {
			out[text] = l.LogP
		}
	}
	return out
}

// known returns a log-probability, nil where it is not known.
func known(logP float64) *float64 {
	if math.IsNaN(logP) || math.IsInf(logP, 0) {
		return nil
	}
	return &logP
}
