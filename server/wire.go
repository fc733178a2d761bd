package server

// wire is the shape in which a client's API has the answer to a conversation. Its fields are what
// the answer repeats of the request, and are part of the answer's key as JSON.
//
// To add an API, write a reader that makes a talk of its request, and a wire. The answer and its
// stream are the chat's: the wire only writes them down.
type wire interface {
	whole(made *call, c *chatCompletion) *answer
	writer() chatWriter // of one stream
}

// chatWriter writes the stream of a conversation.
type chatWriter interface {
	// piece writes what is new of a choice: c.Delta has its text, nil for none, and its calls, each
	// with its name in its first part alone. The choice's last piece has c.Finish. p is for fields
	// that unmask adds.
	piece(s *stream, made *call, c *chatChoice, p *part) error
	// end is chunker's.
	end(s *stream, made *call, a *answer, f *Fault, count bool) error
}

// openAIChat is the wire of /v1/chat/completions.
type openAIChat struct{}

func (openAIChat) whole(_ *call, c *chatCompletion) *answer { return &answer{body: encode(c)} }

func (openAIChat) writer() chatWriter { return openAIPieces{} }

// openAIPieces has the choices whose first chunk was sent: it has the role.
type openAIPieces map[int]bool

func (begun openAIPieces) piece(s *stream, made *call, c *chatChoice, p *part) error {
	if !begun[c.Index] {
		begun[c.Index], c.Delta.Role = true, "assistant"
	}
	out := made.chatCompletion("chat.completion.chunk")
	out.Choices, out.Unmask = []chatChoice{*c}, p.info()
	return s.send("", "", encode(out))
}

func (openAIPieces) end(s *stream, made *call, a *answer, f *Fault, count bool) error {
	if !count {
		return s.done(a, f, nil)
	}
	return s.done(a, f, func(used usage) any {
		out := made.chatCompletion("chat.completion.chunk")
		out.Choices, out.Usage = []chatChoice{}, &used
		return out
	})
}
