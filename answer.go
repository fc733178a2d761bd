package unmask

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"unmask/constrain"
	"unmask/generate"
	"unmask/param"
	"unmask/samplers"
	"unmask/tokenizers/chat"
)

// Answer says which of a sequence's tokens are shown as its text, and where that text ends. The
// command, the HTTP routes and their streams, chats, tasks and --watch all show a sequence by it.
//
// To add a rule that ends texts, add it to end, for tokens, or to stop, for text. Finish reasons,
// counts, log-probabilities and streams follow.
type Answer struct {
	From, To    int            // the first position to fill, and the one after the last
	Show, Until int            // positions that are shown: all of them, or From and To
	EndTokens   []int32        // the text ends before the first of these tokens that is filled in
	StopTexts   []string       // and before the first of these texts
	Calls       *chat.CallForm // how the text spells calls of functions, nil if it has none

	base     int // tokens are decoded from this position on
	prompt   int // where the prompt's text begins, or its tokens
	length   int // of the sequence at the start
	most     int // positions that the model may make of a hole; 0: it does not decide
	text     *Text
	language *constrain.Language // nil: any text
	revises  bool                // open tokens may change
}

// AnswerOf returns the answer of a request that Prepare made q of, for a model of text. It shows
// the whole sequence or, of a conversation, what is filled in.
func (m *Model) AnswerOf(r *Request, q *generate.Request) *Answer {
	spec := m.Spec()
	a := &Answer{
		EndTokens: q.EndTokens,
		StopTexts: r.Stop,
		length:    q.Length,
		text:      m.Text,
		language:  q.Language,
	}
	a.To = a.length
	if q.Known != nil {
		a.length = len(q.Known)
		a.From, a.To = slices.Index(q.Known, a.text.spec.Mask), a.length
		for a.To > 0 && q.Known[a.To-1] != a.text.spec.Mask {
			a.To--
		}
		if a.From < 0 { // nothing is filled in
			a.From, a.To = a.length, a.length
		}
	}
	a.prompt = len(spec.BeforeText)
	if r.Prompt != "" {
		before, _ := m.Text.begin("", false, r.goesOn())
		a.prompt += len(before)
	}
	if a.Until = a.length; r.Messages != nil {
		a.HidePrompt()
		a.base = a.From
		if c, err := m.Chat(); err == nil { // Prepare refuses others
			a.StopTexts = append(slices.Clip(a.StopTexts), c.StopTexts()...)
		}
	}
	whole := a.To == a.length-len(spec.AfterText) || r.Messages != nil && a.To == a.length
	if len(a.EndTokens) == 0 && r.Infill == "" && whole {
		a.EndTokens = spec.EndTokens
	}
	if r.Cut {
		if end, err := m.Text.End(r.End); err == nil { // Prepare refuses others
			a.EndTokens = append(slices.Clip(a.EndTokens), end)
		}
	}
	if r.Calls != nil {
		form, _ := m.callForm()
		a.Calls = &form
	}
	if g, ok := samplers.As[samplers.Grower](q.Sampler); ok && spec.Growth != nil {
		a.most = g.Growth().New
	}
	a.revises = samplers.Is[samplers.Remasker](q.Sampler) || samplers.Is[samplers.Editor](q.Sampler)
	return a
}

// Write makes the text that a request asks for, and returns what is shown of it. After ctx is
// cancelled it ends with an error that wraps ctx.Err().
func (m *Model) Write(ctx context.Context, r Request) (*Rendered, error) {
	if m.Text == nil {
		return nil, param.Refuse("model", param.Unsupported, "the model makes no text")
	}
	q, err := m.Prepare(ctx, r)
	if err != nil {
		return nil, err
	}
	var tokens []int32
	one := slices.Values([]generate.Request{q})
	for step, err := range generate.Each(ctx, m.Denoiser, generate.PoolOptions{Size: 1}, one) {
		if err != nil {
			return nil, err
		}
		tokens = step.Sequences[0].Tokens
	}
	return m.AnswerOf(&r, &q).Render(tokens), nil
}

// Alone makes a show what is filled in and nothing of what was given.
func (a *Answer) HidePrompt() { a.Show, a.Until = a.From, a.To }

// Echo makes a show what is filled in, the prompt before it and all that follows. What is around
// the prompt's text is not shown before it.
func (a *Answer) ShowPrompt() { a.Show, a.Until = a.prompt, a.length }

// Rendered is the text of a sequence, finished or not. Masked positions are shown as [Hole].
type Rendered struct {
	Text string

	// Finish is "stop" where a token or a text ended it, the model chose the length, or a grammar
	// made it whole; else "length".
	Finish string
	Stop   string // that of the answer's Stops before which it ends; "": another end
	To     int    // position after the last that is filled in; of the token that ended the text

	answer *Answer
	tokens []int32
	pieces []string // of the positions from Show on
}

// Shown returns what is shown of a sequence's tokens.
func (a *Answer) Render(tokens []int32) *Rendered {
	grown := len(tokens) - a.length
	s := &Rendered{Finish: "length", To: a.To + grown, answer: a, tokens: tokens}
	until, ended := a.Until+grown, false
	if s.To-a.From < a.most || a.language != nil && a.Calls == nil {
		s.Finish = "stop"
	}
	if at := a.end(tokens, s.To); at >= 0 {
		s.To, until, ended = at, at, true
	}
	pieces := a.text.Pieces(tokens[a.base:until])
	s.pieces = pieces[a.Show-a.base:]
	made := strings.Join(pieces[a.From-a.base:s.To-a.base], "")
	if at, stop := a.stop(made); at >= 0 {
		made, ended, s.Stop = made[:at], true, stop
	} else if a.language != nil {
		made = a.language.Trim(made)
	}
	s.Text = strings.Join(pieces[a.Show-a.base:a.From-a.base], "") + made
	if ended {
		s.Finish = "stop"
	} else {
		s.Text += strings.Join(pieces[s.To-a.base:], "")
	}
	return s
}

// end returns the first position before to of a token that ends the text, -1 if there is none.
func (a *Answer) end(tokens []int32, to int) int {
	for at := a.From; at < to; at++ {
		if slices.Contains(a.EndTokens, tokens[at]) {
			return at
		}
	}
	return -1
}

// stop returns where a text's first stop begins, and the stop; -1 if it has none. Calls are not
// stopped.
func (a *Answer) stop(text string) (first int, which string) {
	if a.Calls != nil {
		text, _ = a.Calls.SplitCalls(text)
	}
	first = -1
	for _, stop := range a.StopTexts {
		if at := strings.Index(text, stop); at >= 0 && (first < 0 || at < first) {
			first, which = at, stop
		}
	}
	return first, which
}

// Settled returns the beginning of a sequence's text that no later step changes. It is "" for
// samplers that change open tokens.
func (a *Answer) Settled(tokens []int32) string {
	if a.revises {
		return ""
	}
	at, to := a.From, a.To+len(tokens)-a.length
	for at < to && tokens[at] != a.text.spec.Mask && !slices.Contains(a.EndTokens, tokens[at]) {
		at++
	}
	pieces := a.text.Pieces(tokens[a.base:a.wholeRunes(tokens, at)])
	text := strings.Join(pieces[a.From-a.base:], "")
	if at, _ := a.stop(text); at >= 0 {
		text = text[:at]
	} else {
		text = text[:len(text)-heldBack(text, a.StopTexts)]
		if a.language != nil && a.language.Text != nil { // they may stand for the missing end
			text = strings.TrimRight(text, " \n")
		}
	}
	for !utf8.ValidString(text) { // a stop that begins within a rune
		text = text[:len(text)-1]
	}
	return strings.Join(pieces[a.Show-a.base:a.From-a.base], "") + text
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

// Divide divides a text, or the beginning of one that is not done, into the content before its
// calls and the calls.
func (a *Answer) Divide(text string, done bool) (content string, calls []chat.Call) {
	if a.Calls == nil {
		return text, nil
	}
	if content, calls = a.Calls.SplitCalls(text); !done && len(calls) == 0 {
		content = content[:len(content)-heldBack(content, []string{a.Calls.BeforeName})]
	}
	return content, calls
}

// wholeRunes returns the largest position up to `to` before which the filled tokens are whole
// runes.
func (a *Answer) wholeRunes(tokens []int32, to int) int {
	var tail []byte
	for at := to; at > a.From && len(tail) < utf8.UTFMax; at-- {
		piece, ok := a.text.Token(tokens[at-1])
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
	for lost := len(tail) - start; to > a.From && lost > 0; to-- {
		piece, _ := a.text.Token(tokens[to-1])
		lost -= len(piece)
	}
	return to
}

// Pieces divides the text into one string for each position from the answer's Show on.
func (s *Rendered) Pieces() (pieces []string) {
	left := len(s.Text)
	for _, piece := range s.pieces {
		piece = piece[:min(len(piece), left)]
		pieces, left = append(pieces, piece), left-len(piece)
	}
	return pieces
}

// Token is a token of a shown text.
type Token struct {
	Position int
	ID       int32
	// Bytes of all tokens are the text, as far as the last token that is shown in part. Those of
	// one may be a part of a character.
	Bytes  string
	Offset int // characters of the text before the one in which the token begins
}

// Tokens returns the tokens of the text, up to the one in which it ends.
func (s *Rendered) Tokens() (list []Token) {
	bytes, begun := 0, 0 // characters that have begun
	for i, text := range s.own() {
		if bytes >= len(s.Text) {
			break
		}
		t := Token{Position: s.answer.Show + i, ID: s.tokens[s.answer.Show+i], Bytes: text,
			Offset: begun}
		if text != "" && !utf8.RuneStart(text[0]) {
			t.Offset--
		}
		list, bytes = append(list, t), bytes+len(text)
		for _, b := range []byte(text) {
			if utf8.RuneStart(b) {
				begun++
			}
		}
	}
	return list
}

// own returns the bytes of each position's token. Pieces have a character that is spread over
// tokens as a whole; it is divided again.
func (s *Rendered) own() []string {
	out := slices.Clone(s.pieces)
	for i := 0; i < len(out); i++ {
		shown, raw := "", ""
		for k := i; k < min(i+utf8.UTFMax, len(out)); k++ {
			token, _ := s.answer.text.Token(s.tokens[s.answer.Show+k])
			shown, raw = shown+s.pieces[k], raw+token
			if shown != raw {
				continue
			}
			for j := i; j <= k && k > i; j++ {
				out[j], _ = s.answer.text.Token(s.tokens[s.answer.Show+j])
			}
			i = k
			break
		}
	}
	return out
}

// Count returns how many filled tokens the text has. Tokens without text, which fill it up, do not
// count.
func (s *Rendered) Count() (n int) {
	for _, t := range s.Tokens() {
		if t.Position < s.answer.From || t.Position >= s.To {
			continue
		}
		if text, known := s.answer.text.Token(t.ID); text != "" || !known {
			n++
		}
	}
	return n
}
