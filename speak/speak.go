// Package speak turns texts into sound with a model that speaks: it divides a long text into parts,
// says what the sequence of each part is, decodes the codes that are generated for it, and joins
// the sounds.
//
//	s, err := speak.New(m, speak.Request{Text: "Two birds sang."})
//	for step, err := range s.Run(ctx, emit) { ... }
package speak

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"unmask"
	"unmask/families/omnivoice"
	"unmask/generate"
	"unmask/media/codecs/higgs"
	"unmask/media/sound"
	"unmask/param"
)

// Request says what a model speaks, and how.
type Request struct {
	// Text is what is spoken. Line ends count as blanks.
	Text string

	// Language is an id such as en, a tag or an English name; "": the model guesses.
	Language string

	// Words describe a designed voice, such as "female, low pitch"; "": any voice.
	Words string

	// Voice is a recorded voice that is continued; nil: none.
	Voice *omnivoice.Voice

	// Speed is how fast it is spoken, SpeedParam; 0 means 1.
	Speed float64

	// Seconds is the length of the sound of a text in one part, SecondsParam; 0: by its letters.
	Seconds float64

	// Stream finishes each part alone, of which the first is about a sentence; otherwise all are
	// finished together. A text of more than ten minutes is always a stream.
	Stream bool

	Seed uint64

	// Preset is a published run of the model, "" for its usual one. Overrides change its parameters.
	Preset string
	unmask.Overrides
}

// MaxTextBytes is the longest text of a Request, bytes.
const MaxTextBytes = 8 << 20

// maxWholeFrames is the longest text that is finished as a whole: ten minutes.
const maxWholeFrames = 600 * omnivoice.FrameRate

// The parameters of a Request that are numbers.
var (
	SpeedParam = param.Param{
		Name:    "speed",
		Min:     0.25,
		Max:     4,
		Default: "1",
		Help:    "how fast it is spoken",
	}
	SecondsParam = param.Param{
		Name:    "seconds",
		Min:     1.0 / omnivoice.FrameRate,
		Zero:    "by its letters",
		Max:     omnivoice.MaxFrames / omnivoice.FrameRate,
		Default: "0",
		Help:    "how long the sound is, 0 to choose by the letters",
	}
)

// Speech is a text that is being spoken, part by part. One goroutine at a time may use one.
type Speech struct {
	// Parts of the text, each of which is one sequence.
	Parts []string

	model   *unmask.Model
	codec   *higgs.Codec
	request Request

	// utterance is what all parts have in common: language and voice.
	utterance omnivoice.Utterance
	pace      omnivoice.Pace

	// finisher sets the volume and the silences of the sounds.
	finisher sound.Stream

	// rawParts are the decoded sounds of the parts so far, unless the request is a stream.
	rawParts [][]float32
}

// New prepares a request. An error is a *param.Error that names the field, or is about the codec.
func New(m *unmask.Model, r Request) (*Speech, error) {
	if m.Speech == nil {
		return nil, param.Refuse("model", param.Unsupported, "the model does not speak")
	}
	s := &Speech{model: m, request: r, utterance: omnivoice.Utterance{Voice: r.Voice}}
	if err := s.readRequest(); err != nil {
		return nil, err
	}
	codec, err := m.Speech.Codec()
	if err != nil {
		return nil, err
	}
	s.codec = codec
	s.finisher.Rate = codec.SampleRate()
	return s, nil
}

// readRequest checks the request and divides its text into parts.
func (s *Speech) readRequest() error {
	r := &s.request
	lineEnds := strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")
	text := strings.TrimSpace(lineEnds.Replace(r.Text))
	if err := checkText(text); err != nil {
		return err
	}
	if err := SpeedParam.Check(r.Speed); err != nil {
		return err
	}
	if err := SecondsParam.Check(r.Seconds); err != nil {
		return err
	}

	var err error
	s.utterance.Language, err = omnivoice.FindLanguage(r.Language)
	if err != nil {
		return err
	}
	s.utterance.Design, err = omnivoice.ParseDesign(r.Words, text)
	if err != nil {
		return err
	}
	if r.Voice != nil {
		s.pace = r.Voice.Pace(s.model.Speech.Codebooks())
		s.finisher.RMS = r.Voice.RMS
	}
	s.pace.Speed = r.Speed
	s.pace.Seconds = r.Seconds

	if s.pace.FrameCount(text) > maxWholeFrames {
		r.Stream = true
	}
	if !r.Stream || r.Seconds != 0 {
		s.Parts = omnivoice.SplitLong(text, s.pace)
		return nil
	}
	// A listener waits for the first part only, so it is short.
	first, others := omnivoice.SplitFirst(text, s.pace)
	s.Parts = []string{first}
	if others != "" {
		s.Parts = append(s.Parts, omnivoice.SplitLong(others, s.pace)...)
	}
	return nil
}

// checkText refuses a text that cannot be spoken.
func checkText(text string) error {
	switch {
	case !utf8.ValidString(text):
		return &param.Error{Name: "text", Found: param.Quote(text[:min(len(text), 40)]), Want: "UTF-8"}
	case omnivoice.CleanText(text, "") == "":
		return &param.Error{Name: "text", Found: param.Quote(text), Want: "something to say"}
	case len(text) > MaxTextBytes:
		return &param.Error{
			Name:   "text",
			Found:  fmt.Sprintf("%d bytes", len(text)),
			Want:   fmt.Sprint("at most ", MaxTextBytes),
			Reason: param.TooLong,
		}
	}
	return nil
}

// Rate returns the samples per second.
func (s *Speech) Rate() int { return s.finisher.Rate }

// Frames returns the length of part i in frames of codes.
func (s *Speech) Frames(i int) int {
	return min(s.pace.FrameCount(s.Parts[i]), omnivoice.MaxFrames)
}

// Sequence returns the sequence of part i. Without a voice later parts continue the voice of the
// first, so the first must have been decoded before.
func (s *Speech) Sequence(ctx context.Context, i int) (generate.Request, error) {
	utterance := s.utterance
	utterance.Text = s.Parts[i]
	condition, err := s.model.Speech.Condition(utterance)
	if err != nil {
		return generate.Request{}, err
	}
	return s.model.Prepare(ctx, unmask.Request{
		Condition: condition,
		Length:    s.Frames(i) * s.model.Speech.Codebooks(),
		Seed:      s.request.Seed,
		Index:     uint32(i),
		Preset:    s.request.Preset,
		Overrides: maps.Clone(s.request.Overrides),
	})
}

// Voice returns the voice of part i, given its codes.
func (s *Speech) Voice(i int, codes []int32) *omnivoice.Voice {
	return &omnivoice.Voice{Codes: slices.Clone(codes), Text: s.Parts[i]}
}

// Decode decodes the codes of part i and calls emit with sounds that are finished, if any. A sound
// is valid until the next.
func (s *Speech) Decode(ctx context.Context, i int, codes []int32,
	emit func(sound []float32) error) error {
	var raw []float32
	err := s.codec.Decode(ctx, codes, func(piece []float32) error {
		raw = append(raw, piece...)
		return nil
	})
	if err != nil {
		return err
	}
	if i == 0 && s.utterance.Voice == nil && len(s.Parts) > 1 {
		s.utterance.Voice = s.Voice(0, codes)
		// The voice has the request's speed already, so the pace takes none.
		s.pace = s.utterance.Voice.Pace(s.model.Speech.Codebooks())
	}
	if s.request.Stream {
		return emitSound(s.finisher.AddPart(raw), emit)
	}
	s.rawParts = append(s.rawParts, raw)
	return nil
}

// Finish calls emit with what follows the last part.
func (s *Speech) Finish(emit func(sound []float32) error) error {
	if s.request.Stream {
		return emitSound(s.finisher.Finish(), emit)
	}
	joined := sound.Join(s.rawParts, s.Rate())
	s.rawParts = nil
	return emitSound(sound.Finish(joined, s.Rate(), s.finisher.RMS), emit)
}

// emitSound calls emit with a sound that is not empty.
func emitSound(samples []float32, emit func([]float32) error) error {
	if len(samples) == 0 {
		return nil
	}
	return emit(samples)
}

// Step is a step of the part that is being generated.
type Step struct {
	*unmask.Step

	// Part is an index in Speech.Parts.
	Part int
}

// Run speaks all parts. It yields after each step, and calls emit with sounds as they are finished.
// After an error, or when ctx is cancelled, it ends with that.
func (s *Speech) Run(ctx context.Context, emit func(sound []float32) error) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		for i := range s.Parts {
			if !s.runPart(ctx, i, emit, yield) {
				return
			}
		}
		if err := s.Finish(emit); err != nil {
			yield(Step{Part: len(s.Parts) - 1}, err)
		}
	}
}

// runPart speaks one part and reports whether the next may follow.
func (s *Speech) runPart(ctx context.Context, i int, emit func(sound []float32) error,
	yield func(Step, error) bool) bool {
	sequence, err := s.Sequence(ctx, i)
	if err != nil {
		yield(Step{Part: i}, err)
		return false
	}
	var codes []int32
	options := generate.Options{Request: sequence}
	for step, err := range generate.Run(ctx, s.model.Denoiser, options) {
		if !yield(Step{step, i}, err) || err != nil {
			return false
		}
		codes = append(codes[:0], step.Sequences[0].Tokens...)
	}
	if err := s.Decode(ctx, i, codes, emit); err != nil {
		yield(Step{Part: i}, err)
		return false
	}
	return true
}
