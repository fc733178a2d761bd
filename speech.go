package unmask

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"unmask/families/omnivoice"
	"unmask/generate"
	"unmask/media/codecs/higgs"
	"unmask/media/sound"
	"unmask/param"
)

// SpeechRequest says what a model speaks, and how.
type SpeechRequest struct {
	Text     string           // line ends count as blanks
	Language string           // an id such as en, a tag or an English name; "": the model guesses
	Words    string           // a designed voice, such as "female, low pitch"; "": any
	Voice    *omnivoice.Voice // that is continued; nil: none
	Speed    float64          // 0 means 1
	Seconds  float64          // how long it is, of a text in one part; 0: by its letters

	// Stream finishes each part alone, of which the first is about a sentence; otherwise all are
	// finished together. A text of more than ten minutes is always a stream.
	Stream bool

	Seed      uint64
	Preset    string // a published run of the model
	Overrides        // of that run
}

// MaxSpoken is the longest text of a SpeechRequest, bytes.
const MaxSpoken = 8 << 20

// wholeFrames is the longest text that is finished as a whole.
const wholeFrames = 600 * omnivoice.FrameRate

// The parameters of a SpeechRequest that are numbers.
var (
	SpeedParam = param.Param{Name: "speed", Min: 0.25, Max: 4, Default: "1",
		Help: "how fast it is spoken"}
	SecondsParam = param.Param{Name: "seconds", Min: 1.0 / omnivoice.FrameRate, Zero: "by its letters",
		Max: omnivoice.MaxFrames / omnivoice.FrameRate, Default: "0",
		Help: "how long the sound is, 0 to choose by the letters"}
)

// Speaking is a text that is being spoken, part by part. One goroutine at a time may use one.
type Speech struct {
	Parts []string // of the text

	model  *Model
	codec  *higgs.Codec
	r      SpeechRequest
	said   omnivoice.Utterance
	pace   omnivoice.Pace
	finish sound.Stream
	raw    [][]float32 // of the parts, unless it is a stream
}

// Speak prepares a request. An error is a *param.Error that names the field, or is about the codec.
func (m *Model) Speak(r SpeechRequest) (*Speech, error) {
	if m.Speech == nil {
		return nil, param.Refuse("model", param.Unsupported, "the model does not speak")
	}
	s := &Speech{model: m, r: r, said: omnivoice.Utterance{Voice: r.Voice}}
	if err := s.read(); err != nil {
		return nil, err
	}
	var err error
	if s.codec, err = m.Speech.Codec(); err != nil {
		return nil, err
	}
	s.finish.Rate = s.codec.SampleRate()
	return s, nil
}

// read checks the request and cuts its text.
func (s *Speech) read() (err error) {
	r := &s.r
	text := strings.TrimSpace(strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ").Replace(r.Text))
	switch {
	case !utf8.ValidString(text):
		return &param.Error{Name: "text", Found: param.Quote(text[:min(len(text), 40)]), Want: "UTF-8"}
	case omnivoice.CleanText(text, "") == "":
		return &param.Error{Name: "text", Found: param.Quote(text), Want: "something to say"}
	case len(text) > MaxSpoken:
		return &param.Error{Name: "text", Found: fmt.Sprintf("%d bytes", len(text)),
			Want: fmt.Sprint("at most ", MaxSpoken), Reason: param.TooLong}
	}
	if err := cmp.Or(SpeedParam.Check(r.Speed), SecondsParam.Check(r.Seconds)); err != nil {
		return err
	}
	if s.said.Language, err = omnivoice.FindLanguage(r.Language); err != nil {
		return err
	}
	if s.said.Design, err = omnivoice.ParseDesign(r.Words, text); err != nil {
		return err
	}
	if r.Voice != nil {
		s.pace = r.Voice.Pace(s.model.Speech.Codebooks())
		s.finish.RMS = r.Voice.RMS
	}
	s.pace.Speed, s.pace.Seconds = r.Speed, r.Seconds
	r.Stream = r.Stream || s.pace.FrameCount(text) > wholeFrames
	if r.Stream && r.Seconds == 0 {
		first, rest := omnivoice.SplitFirst(text, s.pace)
		s.Parts = []string{first}
		if rest != "" {
			s.Parts = append(s.Parts, omnivoice.SplitLong(rest, s.pace)...)
		}
		return nil
	}
	s.Parts = omnivoice.SplitLong(text, s.pace)
	return nil
}

// Rate returns the samples of a second.
func (s *Speech) Rate() int { return s.finish.Rate }

// Frames returns the length of part i.
func (s *Speech) Frames(i int) int {
	return min(s.pace.FrameCount(s.Parts[i]), omnivoice.MaxFrames)
}

// Request returns the sequence of part i. Without a voice later parts continue the first, which
// must have been Made.
func (s *Speech) Request(ctx context.Context, i int) (generate.Request, error) {
	said := s.said
	said.Text = s.Parts[i]
	c, err := s.model.Speech.Condition(said)
	if err != nil {
		return generate.Request{}, err
	}
	q, err := s.model.Prepare(ctx, Request{Prompt: "-",
		Length: s.Frames(i) * s.model.Speech.Codebooks(), Seed: s.r.Seed, Index: uint32(i),
		Preset: s.r.Preset, Overrides: maps.Clone(s.r.Overrides)})
	q.Condition = c // in place of the prompt's
	return q, err
}

// Voice returns the voice of part i, given its codes.
func (s *Speech) Voice(i int, codes []int32) *omnivoice.Voice {
	return &omnivoice.Voice{Codes: slices.Clone(codes), Text: s.Parts[i]}
}

// Made decodes the codes of part i and calls emit with sounds that are finished, if any. A sound is
// valid until the next.
func (s *Speech) Decode(ctx context.Context, i int, codes []int32,
	emit func(sound []float32) error) error {
	var raw []float32
	err := s.codec.Decode(ctx, codes, func(part []float32) error {
		raw = append(raw, part...)
		return nil
	})
	if err != nil {
		return err
	}
	if i == 0 && s.said.Voice == nil && len(s.Parts) > 1 {
		s.said.Voice = s.Voice(0, codes)
		s.pace = s.said.Voice.Pace(s.model.Speech.Codebooks()) // which has the speed
	}
	if s.r.Stream {
		return some(s.finish.AddPart(raw), emit)
	}
	s.raw = append(s.raw, raw)
	return nil
}

// End calls emit with what follows the last part.
func (s *Speech) End(emit func(sound []float32) error) error {
	if s.r.Stream {
		return some(s.finish.Finish(), emit)
	}
	all := sound.Join(s.raw, s.Rate())
	s.raw = nil
	return some(sound.Finish(all, s.Rate(), s.finish.RMS), emit)
}

func some(x []float32, emit func([]float32) error) error {
	if len(x) == 0 {
		return nil
	}
	return emit(x)
}

// SpeechStep is a step of a part that is being made.
type SpeechStep struct {
	*Step
	Part int // index in Speaking.Parts
}

// Run speaks all parts. It yields after each step, and calls emit with sounds as they are finished.
// After an error, or when ctx is cancelled, it ends with that.
func (s *Speech) Run(ctx context.Context,
	emit func(sound []float32) error) iter.Seq2[SpeechStep, error] {
	return func(yield func(SpeechStep, error) bool) {
		for i := range s.Parts {
			q, err := s.Request(ctx, i)
			if err != nil {
				yield(SpeechStep{Part: i}, err)
				return
			}
			var codes []int32
			for step, err := range generate.Run(ctx, s.model.Denoiser,
				generate.Options{Request: q}) {
				if !yield(SpeechStep{step, i}, err) || err != nil {
					return
				}
				codes = append(codes[:0], step.Sequences[0].Tokens...)
			}
			if err := s.Decode(ctx, i, codes, emit); err != nil {
				yield(SpeechStep{Part: i}, err)
				return
			}
		}
		if err := s.End(emit); err != nil {
			yield(SpeechStep{Part: len(s.Parts) - 1}, err)
		}
	}
}
