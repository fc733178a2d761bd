package server

import (
	"slices"

	"unmask"
	"unmask/server/engine"
	"unmask/tokenizers/chat"
)

// choiceUpdate is the content of a choice or, in a stream, what is new of it.
type choiceUpdate struct {
	index int
	form  *textForm

	// isDelta reports whether this is a piece of a stream.
	isDelta bool

	// isFirst reports whether this is the first piece of the choice.
	isFirst bool

	text string

	// calls are the calls of tools. In a stream each has its name and id in its first part alone.
	calls []toolCall

	// finish is OpenAI's finish_reason. It is "" except in a choice's last piece.
	finish string

	// rendered is the whole text of the choice, in its last piece.
	rendered *unmask.Rendered

	// member is what rendered was made from.
	member *engine.Member
}

// setFinished sets the update to the whole content of a finished sequence.
func (u *choiceUpdate) setFinished(m *engine.Member) {
	u.rendered = u.form.Render(m.Tokens)
	u.member = m
	u.text = u.rendered.Text
	u.finish = u.rendered.Finish
}

// wire is the shape in which a client's API has the texts that it asked for.
//
// To add an API, write a reader that fills a chatRequest from its request, and a wire. The answer
// and its stream are those of all APIs: the wire only writes them down.
type wire interface {
	// encodeAnswer returns the answer of a call whose choices are all finished.
	encodeAnswer(c *call, choices []choiceUpdate, used usage) *answer

	// newStreamWriter returns the writer of one stream.
	newStreamWriter() streamWriter
}

// streamWriter writes a stream of texts.
type streamWriter interface {
	// writeUpdate writes what is new of a choice. info is for the field unmask, nil for nothing.
	writeUpdate(s *stream, c *call, u *choiceUpdate, info any) error

	// writeEnd writes what comes after all choices: the answer is a, or f is why there is none.
	// withUsage says that the client wants to know how many tokens there are.
	writeEnd(s *stream, c *call, a *answer, f *Fault, withUsage bool) error
}

// answerTexts makes the answer of finished sequences.
func answerTexts(c *call) (*answer, *Fault) {
	used := usage{Prompt: c.promptTokens}
	var choices []choiceUpdate
	for i, m := range c.Members {
		u := choiceUpdate{index: i, form: &c.textForms[i], isFirst: true}
		u.setFinished(m)
		used.Completion += u.rendered.Count()
		u.splitCalls(c)
		choices = append(choices, u)
	}
	used.Total = used.Prompt + used.Completion
	a := c.wire.encodeAnswer(c, choices, used)
	a.details = used
	return a, nil
}

// openAIWire is the wire of OpenAI's first two routes, which have choices.
type openAIWire[Choice any] struct {
	// object and chunk name the answer and a piece of its stream.
	object string
	chunk  string

	newChoice func(u *choiceUpdate) Choice
}

// encodeAnswer implements wire: a list of choices.
func (w *openAIWire[C]) encodeAnswer(c *call, choices []choiceUpdate, used usage) *answer {
	out := newChoiceList[C](c, w.object)
	for i := range choices {
		out.Choices = append(out.Choices, w.newChoice(&choices[i]))
	}
	out.Usage = &used
	out.Unmask = c.info()
	return &answer{body: encodeJSON(out)}
}

// newStreamWriter returns the wire itself: its pieces do not depend on those before.
func (w *openAIWire[C]) newStreamWriter() streamWriter { return w }

// writeUpdate implements streamWriter: a chunk with one choice.
func (w *openAIWire[C]) writeUpdate(s *stream, c *call, u *choiceUpdate, info any) error {
	out := newChoiceList[C](c, w.chunk)
	out.Choices = append(out.Choices, w.newChoice(u))
	out.Unmask = info
	return s.sendEvent("", "", encodeJSON(out))
}

// writeEnd implements streamWriter: a chunk with the counts, if they are wanted, and the mark that
// ends OpenAI's streams.
func (w *openAIWire[C]) writeEnd(s *stream, c *call, a *answer, f *Fault, withUsage bool) error {
	if f != nil {
		return s.sendEvent("", "", f.JSON())
	}
	if used, ok := a.details.(usage); ok && withUsage {
		out := newChoiceList[C](c, w.chunk)
		out.Usage = &used
		if err := s.sendEvent("", "", encodeJSON(out)); err != nil {
			return err
		}
	}
	return s.sendEvent("", "", []byte("[DONE]"))
}

// blockWriter divides a stream into blocks, a text and then calls, for APIs whose events say where
// each begins and ends.
type blockWriter struct {
	stream *stream
	call   *call

	// eventsSent counts the events.
	eventsSent int

	// blocksBegun counts the blocks.
	blocksBegun int

	// current is the block that has begun and not ended, nil before the first.
	current *block

	// err is the first error of the connection. Nothing is sent after it.
	err error
}

// block is a part of an answer that has a beginning and an end of its own.
type block struct {
	index int

	// toolCall is the call that the block is, nil where it is the text.
	toolCall *toolCall

	// text is the block's text or its call's arguments, so far.
	text string

	// finish is that of the choice, when it ends with the block.
	finish string

	// logs are the log-probabilities of the text, when it ends.
	logs *chatLogs
}

// blockEncoder writes the events of blocks.
type blockEncoder interface {
	beginBlock(b *block)
	extendBlock(b *block, text string)
	endBlock(b *block)
}

// writeBlocks writes what is new of a choice as events of blocks.
func (w *blockWriter) writeBlocks(e blockEncoder, s *stream, c *call, u *choiceUpdate) error {
	w.stream = s
	w.call = c

	// An answer without text and calls has one empty block of text.
	isEmptyAnswer := u.finish != "" && w.blocksBegun == 0 && u.calls == nil
	if u.text != "" || isEmptyAnswer {
		if w.current == nil {
			w.nextBlock(e, nil)
		}
		w.extendCurrent(e, u.text)
	}
	for i := range u.calls {
		if u.calls[i].ID != "" {
			w.nextBlock(e, &u.calls[i])
		}
		w.extendCurrent(e, u.calls[i].Function.Arguments)
	}
	if u.finish != "" {
		w.current.finish = u.finish
		w.current.logs = u.chatLogs()
		e.endBlock(w.current)
	}
	return w.err
}

// nextBlock ends the current block and begins another.
func (w *blockWriter) nextBlock(e blockEncoder, toolCall *toolCall) {
	if w.current != nil {
		e.endBlock(w.current)
	}
	w.current = &block{index: w.blocksBegun, toolCall: toolCall}
	w.blocksBegun++
	e.beginBlock(w.current)
}

// extendCurrent adds text to the current block.
func (w *blockWriter) extendCurrent(e blockEncoder, text string) {
	if text == "" {
		return
	}
	w.current.text += text
	e.extendBlock(w.current, text)
}

// sendEvent writes an event whose data have its name as type.
func (w *blockWriter) sendEvent(name string, data map[string]any) {
	data["type"] = name
	if w.err == nil {
		w.err = w.stream.sendEvent(name, "", encodeJSON(data))
	}
	w.eventsSent++
}

// textMessage returns a message of text alone.
func textMessage(role, text string) message {
	return message{Message: chat.Message{Role: role, Content: text}}
}

// withCall adds a call to a conversation: to its last message, if that is the assistant's, or else
// to a new one.
func withCall(conversation []message, call messageCall) []message {
	if n := len(conversation); n == 0 || conversation[n-1].Role != "assistant" {
		conversation = append(conversation, textMessage("assistant", ""))
	}
	last := &conversation[len(conversation)-1]
	last.Calls = append(slices.Clip(last.Calls), call)
	return conversation
}
