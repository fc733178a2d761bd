package server

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"unmask/families/omnivoice"
	"unmask/generate"
	"unmask/internal/jsonline"
	"unmask/media/sound"
	"unmask/param"
	"unmask/speak"
)

// maxSpoken is the longest text of a request, bytes: about an hour of sound.
const maxSpoken = 1 << 16

// autoVoice is the voice of a request that names none.
const autoVoice = "auto"

// speaking is a request for speech.
type speaking struct {
	model   *servedModel
	set     settings
	request speak.Request
	of      *speak.Speech
	voice   string
	format  string
	stream  string // audio or sse; "" if the sound is sent as a whole
}

// speaks answers POST /v1/audio/speech. A text in several parts is always streamed.
func (s *Server) speaks(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	q := s.readSpeech(f)
	f.free()
	if fault := f.end(); fault != nil {
		return fault
	}
	prepare := func() (fault *Fault) {
		var err error
		if q.of, err = speak.New(q.model.Model, q.request); err != nil {
			fault = refused("input", err).renamed(map[string]string{"text": "input",
				"voice word": "instructions"})
		}
		return fault
	}
	fault := prepare()
	if fault == nil && len(q.of.Parts) > 1 && q.stream == "" {
		q.stream, q.request.Stream = "audio", true
		fault = prepare()
	}
	if fault != nil {
		return fault
	}
	if q.stream != "" {
		if fault := s.opens(); fault != nil {
			return fault
		}
		defer s.closes()
	}
	w.Header().Set("Unmask-Seed", strconv.FormatUint(q.request.Seed, 10))
	out := &spokenAnswer{q: q, w: w}
	if q.stream != "" {
		out.stream = s.newStream(w, r)
	}
	if q.stream == "audio" {
		out.stream.kind = sound.MediaType(q.format)
	}
	return out.end(s.speak(r, q, out))
}

// readSpeech reads the fields of a request.
func (s *Server) readSpeech(f *fields) (q speaking) {
	if q.model = s.model(f, wantsSpeech); q.model == nil {
		return q
	}
	q.set = readSettings(f)
	f.refuse(q.set.n != 1, outOfRange("n", q.set.n, "1"))
	if !q.set.seeded {
		q.set.request.Seed = rand.Uint64N(maxDrawn)
	}
	input := f.needed("input")
	f.refuse(len(input) > maxSpoken,
		bad("context_length_exceeded", "input", "input is %d bytes, want at most %d", len(input),
			maxSpoken))
	q.request = speak.Request{Text: input, Language: f.text("language"),
		Words: f.text("instructions"), Speed: f.float("speed", speak.SpeedParam),
		Seconds: f.float("seconds", speak.SecondsParam), Seed: q.set.request.Seed,
		Preset: q.set.request.Preset, Overrides: q.set.request.Overrides}
	q.format = f.word("response_format", sound.Formats...)
	if f.has("stream_format") {
		q.stream, q.request.Stream = f.word("stream_format", "audio", "sse"), true
	}
	q.voice = autoVoice
	if raw := f.value("voice"); jsonline.ValueKind(raw) == "an object" {
		f.inner("voice", raw, func(o *fields) { q.voice = o.needed("id") })
	} else if raw != nil {
		q.voice = f.textOf("voice", raw)
	}
	if q.voice != autoVoice && f.fault == nil {
		s.readVoice(f, &q)
	}
	return q
}

// float reads a number, 0 where it is absent.
func (f *fields) float(name string, p param.Param) float64 {
	raw := f.value(name)
	if raw == nil {
		return 0
	}
	if jsonline.ValueKind(raw) != "a number" {
		f.wrongType(name, raw, "a number, "+p.Want())
		return 0
	}
	x, err := p.Float(string(raw))
	if err != nil {
		f.fail(refused(name, err))
	}
	return x
}

// voices returns the names of the voices, and their files.
func (s *Server) voices() (names []string, files map[string]string) {
	names, files = []string{autoVoice}, map[string]string{}
	if s.o.Voices == "" {
		return names, files
	}
	list, _ := os.ReadDir(s.o.Voices) // a folder that is gone has none
	for _, file := range list {
		name, ext := file.Name(), filepath.Ext(file.Name())
		if name = strings.TrimSuffix(name, ext); ext == ".pt" || ext == ".safetensors" {
			if files[name] == "" && name != autoVoice {
				names = append(names, name)
			}
			files[name] = filepath.Join(s.o.Voices, file.Name())
		}
	}
	return names, files
}

// listVoices answers GET /v1/audio/voices.
func (s *Server) listVoices(*http.Request) (any, *Fault) {
	names, _ := s.voices()
	return map[string][]string{"voices": names}, nil
}

// readVoice reads the voice that a request names.
func (s *Server) readVoice(f *fields, q *speaking) {
	names, files := s.voices()
	file, ok := files[q.voice]
	if !ok {
		f.fail(refused("voice", param.Unknown("voice", q.voice, names)))
		return
	}
	var err error
	if q.request.Voice, err = q.model.Speech.ReadVoice(file); err != nil {
		f.fail(refused("voice", err))
	}
}

// speak makes the parts of a request, each a call of its own, so that others take turns with it.
func (s *Server) speak(r *http.Request, q speaking, out *spokenAnswer) *Fault {
	ctx := r.Context()
	for i, text := range q.of.Parts {
		one, err := q.of.Sequence(ctx, i)
		if err != nil {
			return refused("input", err).renamed(map[string]string{"text": "input"})
		}
		codes, fault := s.spokenPart(r, q, i, text, one)
		if fault != nil {
			return fault
		}
		if err := q.of.Decode(ctx, i, codes, out.put); err != nil {
			return out.fault(err)
		}
	}
	if err := q.of.Finish(out.put); err != nil {
		return out.fault(err)
	}
	return nil
}

// spokenPart makes the codes of a part.
func (s *Server) spokenPart(r *http.Request, q speaking, i int, text string,
	one generate.Request) ([]int32, *Fault) {
	part := query{kind: "speech", prefix: "speech-", model: q.model, set: q.set,
		sequences: []generate.Request{one}, form: spokenForm{q.request, q.voice, i}}
	part.set.request.Prompt = text
	part.answers = func(c *call) (*answer, *Fault) {
		return &answer{body: []byte("{}"), parts: slices.Clone(c.Members[0].Tokens)}, nil
	}
	made, _, refusal := s.begin(part, keyName(r))
	if refusal != nil {
		return nil, refusal
	}
	defer s.calls.Unwatch(made.Call)
	n := note(r)
	n.rows, n.call = n.rows+made.Rows, made
	if err := made.Wait(r.Context()); err != nil {
		n.gone = true
		return nil, fault(499, "client_gone", "the client is gone")
	}
	a, refusal := resultOf(made.Call)
	if refusal != nil {
		return nil, refusal
	}
	return a.parts.([]int32), nil
}

// spokenForm is all that the codes of a part depend on.
type spokenForm struct {
	Request speak.Request
	Voice   string
	Part    int
}

// put sends a part of the sound, or keeps it for the whole.
func (a *spokenAnswer) put(x []float32) (err error) {
	if a.out == nil {
		length := len(x) // of the sound, which x is all of
		if a.stream != nil {
			length = -1
		}
		if a.out, err = sound.NewWriter(&a.bytes, a.q.format, a.q.of.Rate(), length); err != nil {
			return err
		}
	}
	if err := a.out.Write(x); err != nil {
		return err
	}
	a.samples += len(x)
	return a.flush()
}

// spokenAnswer is where the sound of a request goes.
type spokenAnswer struct {
	q       speaking
	w       http.ResponseWriter
	stream  *stream // nil: the sound is sent as a whole
	out     sound.Writer
	bytes   bytes.Buffer // not sent yet
	samples int
	gone    error // of the connection
}

// flush sends the bytes of a stream.
func (a *spokenAnswer) flush() error {
	if a.stream == nil || a.bytes.Len() == 0 {
		return nil
	}
	defer a.bytes.Reset()
	if a.q.stream == "sse" {
		a.gone = a.stream.send("", "", encode(map[string]string{"type": "speech.audio.delta",
			"audio": base64.StdEncoding.EncodeToString(a.bytes.Bytes())}))
	} else {
		a.gone = a.stream.write(a.bytes.String())
	}
	if a.gone == nil {
		a.gone = a.stream.flush()
	}
	return a.gone
}

// fault returns that of an error of the sound.
func (a *spokenAnswer) fault(err error) *Fault {
	return fault(http.StatusInternalServerError, "decode_failed", "%s", oneLine(err))
}

// end sends what is left. It returns the fault where nothing was sent.
func (a *spokenAnswer) end(f *Fault) *Fault {
	if f == nil && a.out == nil { // silence is a sound without samples
		if err := a.put(nil); err != nil {
			f = a.fault(err)
		}
	}
	if f == nil {
		if err := a.out.Close(); err != nil {
			f = a.fault(err)
		}
	}
	sse := a.q.stream == "sse"
	switch {
	case a.gone != nil:
	case f != nil && (a.stream == nil || !a.stream.begun):
		return f
	case f != nil && sse:
		if a.stream.send("error", "", f.JSON()) == nil {
			_ = a.stream.flush()
		}
	case f != nil: // what was sent must not pass for all
		panic(http.ErrAbortHandler)
	case a.stream == nil:
		writeBody(a.w, http.StatusOK, sound.MediaType(a.q.format), a.bytes.Bytes())
	default:
		if a.flush() == nil && sse {
			_ = a.stream.send("", "", encode(map[string]any{"type": "speech.audio.done",
				"usage": a.usage()}))
			_ = a.stream.flush()
		}
	}
	return nil
}

// usage counts as OpenAI does: characters for tokens of the text, and frames for those of sound.
func (a *spokenAnswer) usage() map[string]int {
	in, out := 0, a.samples*omnivoice.FrameRate/a.q.of.Rate()
	for _, p := range a.q.of.Parts {
		in += len([]rune(p))
	}
	return map[string]int{"input_tokens": in, "output_tokens": out, "total_tokens": in + out}
}
