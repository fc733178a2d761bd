package unmask

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"unmask/constrain"
	"unmask/generate"
	"unmask/param"
	"unmask/prompt"
	"unmask/samplers"
	"unmask/tokenizers/chat"
)

// Answer says which of a sequence's tokens are shown as its text, and where that text ends. The
// command, the HTTP routes and their streams, chats, tasks and --watch all show a sequence by it.
//
// To add a rule that ends texts, add it to findEndToken or to findStopText. Finish reasons, counts,
// log-probabilities and streams follow.
type Answer struct {
	// From and To are the first position to fill, and the one after the last.
	From, To int

	// Show and Until are the positions that are shown: all of them, or From and To.
	Show, Until int

	// EndTokens end the text: it is what stands before the first of them that is filled in.
	EndTokens []int32

	// StopTexts end the text too: it is what stands before the first of them.
	StopTexts []string

	// Calls is how the text spells calls of functions, nil if it has none.
	Calls *chat.CallForm

	// decodeFrom is the position from which on tokens are decoded.
	decodeFrom int

	// promptFrom is the position where the prompt's text begins, or its tokens.
	promptFrom int

	// startLength is the number of positions at the start. A sequence may grow.
	startLength int

	// textEnd is the position behind the text at the start. The model's Tail follows it, or nothing.
	textEnd int

	// maxHole is the number of positions that the model may make of a hole; 0: it does not decide
	// the length.
	maxHole int

	text *prompt.Text

	// language is nil where any text is allowed, and isWhole means that its texts end themselves.
	language *constrain.Language
	isWhole  bool
}

// AnswerOf returns the answer of a request that Prepare made q of, for a model of text. It shows
// the whole sequence or, of a conversation, what is filled in.
func (m *Model) AnswerOf(r *Request, q *generate.Request) *Answer {
	spec := m.Spec()
	a := &Answer{
		To:          q.Length,
		EndTokens:   q.EndTokens,
		StopTexts:   r.Stop,
		startLength: q.Length,
		text:        m.Text,
		language:    q.Language,
		isWhole:     q.Language != nil && r.Grammar.EndsItself() && r.Calls == nil,
	}
	if q.Known != nil {
		a.startLength = len(q.Known)
		a.From, a.To = maskedSpan(q.Known, spec.Mask)
	}
	a.textEnd = a.startLength - spec.TailCount(q.Known)
	a.Until = a.textEnd

	a.promptFrom = len(spec.BeforeText)
	if r.Prompt != "" {
		beginTokens, _ := m.Text.Begin("", false, !r.hasSuffix())
		a.promptFrom += len(beginTokens)
	}

	if r.Messages != nil {
		a.HidePrompt()
		a.decodeFrom = a.From
		if c, err := m.Chat(); err == nil { // Prepare refuses others
			a.StopTexts = append(slices.Clip(a.StopTexts), c.StopTexts()...)
		}
	}

	isLast := a.To == a.textEnd-len(spec.AfterText) || r.Messages != nil && a.To == a.textEnd
	if len(a.EndTokens) == 0 && r.Infill == "" && isLast {
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
	if grower, ok := samplers.As[samplers.Grower](q.Sampler); ok && spec.Growth != nil {
		a.maxHole = grower.Growth().New
	}
	return a
}

// maskedSpan returns the first masked position of tokens and the one after the last; both are the
// length where nothing is masked.
func maskedSpan(tokens []int32, mask int32) (start, end int) {
	start = slices.Index(tokens, mask)
	if start < 0 {
		return len(tokens), len(tokens)
	}
	end = len(tokens)
	for tokens[end-1] != mask {
		end--
	}
	return start, end
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
	requests := slices.Values([]generate.Request{q})
	for step, err := range generate.Each(ctx, m.Denoiser, generate.PoolOptions{Size: 1}, requests) {
		if err != nil {
			return nil, err
		}
		tokens = step.Sequences[0].Tokens
	}
	return m.AnswerOf(&r, &q).Render(tokens), nil
}

// HidePrompt makes a show what is filled in and nothing of what the request gave.
func (a *Answer) HidePrompt() {
	a.Show = a.From
	a.Until = a.To
}

// ShowPrompt makes a show what is filled in, the prompt before it and all that follows. What is
// around the prompt's text is not shown before it.
func (a *Answer) ShowPrompt() {
	a.Show = a.promptFrom
	a.Until = a.textEnd
}

// Rendered is the text of a sequence, finished or not. Masked positions are shown as [prompt.Hole].
type Rendered struct {
	Text string

	// Finish is "stop" where a token or a text ended it, the model chose the length, or a grammar
	// made it whole; else "length".
	Finish string

	// Stop is that of the answer's StopTexts before which it ends; "": it ends otherwise.
	Stop string

	// To is the position after the last that is filled in, or that of the token that ended the
	// text.
	To int

	answer *Answer
	tokens []int32

	// pieces are the texts of the positions from Show on.
	pieces []string
}

// Render returns what is shown of a sequence's tokens.
func (a *Answer) Render(tokens []int32) *Rendered {
	grown := len(tokens) - a.startLength // behind From, so that all ends move with it
	s := &Rendered{Finish: "length", To: a.To + grown, answer: a, tokens: tokens}
	until := a.Until + grown
	if s.To-a.From < a.maxHole || a.isWhole {
		s.Finish = "stop"
	}

	endPosition := a.findEndToken(tokens, s.To)
	ended := endPosition >= 0
	if ended {
		s.To = endPosition
		until = endPosition
	}

	pieces := a.text.Pieces(tokens[a.decodeFrom:until])
	s.pieces = pieces[a.Show-a.decodeFrom:]
	filled := strings.Join(pieces[a.From-a.decodeFrom:s.To-a.decodeFrom], "")
	stopOffset, stopText := a.findStopText(filled)
	if stopOffset >= 0 {
		filled = filled[:stopOffset]
		ended = true
		s.Stop = stopText
	} else if a.language != nil {
		filled = a.language.Trim(filled)
	}

	s.Text = strings.Join(pieces[a.Show-a.decodeFrom:a.From-a.decodeFrom], "") + filled
	if ended {
		s.Finish = "stop"
	} else {
		s.Text += strings.Join(pieces[s.To-a.decodeFrom:], "")
	}
	return s
}

// findEndToken returns the first filled position before `end` of a token that ends the text, -1 if
// there is none.
func (a *Answer) findEndToken(tokens []int32, end int) int {
	for position := a.From; position < end; position++ {
		if slices.Contains(a.EndTokens, tokens[position]) {
			return position
		}
	}
	return -1
}

// findStopText returns the offset of the first stop text in text, and that stop text; -1 if it has
// none. Calls of functions are not searched: their arguments may hold any text.
func (a *Answer) findStopText(text string) (offset int, stopText string) {
	if a.Calls != nil {
		text, _ = a.Calls.SplitCalls(text)
	}
	offset = -1
	for _, candidate := range a.StopTexts {
		i := strings.Index(text, candidate)
		if i >= 0 && (offset < 0 || i < offset) {
			offset = i
			stopText = candidate
		}
	}
	return offset, stopText
}

// Settled returns the beginning of a sequence's text that no later step changes, given how many of
// its positions are settled ([generate.Sequence.Settled]).
func (a *Answer) Settled(tokens []int32, settled int) string {
	end := min(a.To+len(tokens)-a.startLength, settled)
	open := a.From
	for open < end && tokens[open] != a.text.Mask() && !slices.Contains(a.EndTokens, tokens[open]) {
		open++
	}

	pieces := a.text.Pieces(tokens[a.decodeFrom:a.trimPartialRune(tokens, open)])
	text := strings.Join(pieces[a.From-a.decodeFrom:], "")
	if offset, _ := a.findStopText(text); offset >= 0 {
		text = text[:offset]
	} else {
		text = text[:len(text)-partialSuffix(text, a.StopTexts)]
		if a.language != nil && a.language.Text != nil { // blanks may stand for the missing end token
			text = strings.TrimRight(text, " \n")
		}
	}
	for !utf8.ValidString(text) { // a stop text may begin within a rune
		text = text[:len(text)-1]
	}
	return strings.Join(pieces[a.Show-a.decodeFrom:a.From-a.decodeFrom], "") + text
}

// partialSuffix returns how many bytes at the end of text may be the beginning of one of markers.
func partialSuffix(text string, markers []string) int {
	longest := 0
	for _, marker := range markers {
		for n := min(len(marker)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, marker[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}

// SplitCalls divides a text, or the beginning of one that is not complete, into the content before
// its calls of functions and the calls.
func (a *Answer) SplitCalls(text string, complete bool) (content string, calls []chat.Call) {
	if a.Calls == nil {
		return text, nil
	}
	content, calls = a.Calls.SplitCalls(text)
	if !complete && len(calls) == 0 {
		// The end may be the beginning of a call's mark, which must not be sent as content.
		content = content[:len(content)-partialSuffix(content, []string{a.Calls.BeforeName})]
	}
	return content, calls
}

// trimPartialRune returns the largest position up to `end` before which the filled tokens are whole
// runes: a token may end within a character, and half of one must not be sent.
func (a *Answer) trimPartialRune(tokens []int32, end int) int {
	var tail []byte
	for position := end; position > a.From && len(tail) < utf8.UTFMax; position-- {
		piece, ok := a.text.Token(tokens[position-1])
		if !ok {
			break
		}
		tail = append([]byte(piece), tail...)
	}

	runeStart := len(tail) - 1
	for runeStart > 0 && !utf8.RuneStart(tail[runeStart]) {
		runeStart--
	}
	if runeStart < 0 || utf8.FullRune(tail[runeStart:]) {
		return end
	}
	// The partial rune begins in an earlier token, or in this one.
	partialBytes := len(tail) - runeStart
	for end > a.From && partialBytes > 0 {
		piece, _ := a.text.Token(tokens[end-1])
		partialBytes -= len(piece)
		end--
	}
	return end
}

// Pieces divides the text into one string for each position from the answer's Show on.
func (s *Rendered) Pieces() []string {
	var pieces []string
	bytesLeft := len(s.Text)
	for _, piece := range s.pieces {
		piece = piece[:min(len(piece), bytesLeft)]
		pieces = append(pieces, piece)
		bytesLeft -= len(piece)
	}
	return pieces
}

// Token is a token of a rendered text.
type Token struct {
	Position int
	ID       int32

	// Bytes of all tokens are the text, as far as the last token that is shown in part. Those of
	// one may be a part of a character.
	Bytes string

	// Offset counts the characters of the text before the one in which the token begins.
	Offset int
}

// Tokens returns the tokens of the text, up to the one in which it ends.
func (s *Rendered) Tokens() []Token {
	var list []Token
	bytes := 0
	charactersBegun := 0
	for i, text := range s.tokenBytes() {
		if bytes >= len(s.Text) {
			break
		}
		position := s.answer.Show + i
		token := Token{
			Position: position,
			ID:       s.tokens[position],
			Bytes:    text,
			Offset:   charactersBegun,
		}
		if text != "" && !utf8.RuneStart(text[0]) {
			token.Offset--
		}
		list = append(list, token)
		bytes += len(text)
		for _, b := range []byte(text) {
			if utf8.RuneStart(b) {
				charactersBegun++
			}
		}
	}
	return list
}

// tokenBytes returns the bytes of each position's token. Pieces have a character that is spread
// over tokens as a whole; here it is divided again.
func (s *Rendered) tokenBytes() []string {
	texts := slices.Clone(s.pieces)
	for i := 0; i < len(texts); i++ {
		last := s.lastOfCharacter(i)
		if last <= i {
			continue
		}
		for position := i; position <= last; position++ {
			texts[position] = s.rawToken(position)
		}
		i = last
	}
	return texts
}

// lastOfCharacter returns the last of the pieces from i on that together spell what their tokens
// do, i itself or one that ends a spread character; -1 if there is none near.
func (s *Rendered) lastOfCharacter(i int) int {
	rendered := ""
	raw := ""
	for last := i; last < min(i+utf8.UTFMax, len(s.pieces)); last++ {
		rendered += s.pieces[last]
		raw += s.rawToken(last)
		if rendered == raw {
			return last
		}
	}
	return -1
}

// rawToken returns the bytes of the token of piece i.
func (s *Rendered) rawToken(i int) string {
	text, _ := s.answer.text.Token(s.tokens[s.answer.Show+i])
	return text
}

// Count returns how many filled tokens the text has. Tokens without text, which fill it up, do not
// count.
func (s *Rendered) Count() int {
	count := 0
	for _, token := range s.Tokens() {
		if token.Position < s.answer.From || token.Position >= s.To {
			continue
		}
		text, isToken := s.answer.text.Token(token.ID)
		if text != "" || !isToken {
			count++
		}
	}
	return count
}
