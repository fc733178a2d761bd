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

// maxSpeechBytes is the longest text of a request: about an hour of sound.
const maxSpeechBytes = 1 << 16

// autoVoice is the voice of a request that names none.
const autoVoice = "auto"

// speechRequest is a request for speech.
type speechRequest struct {
	model    *servedModel
	settings settings
	request  speak.Request
	speech   *speak.Speech
	voice    string
	format   string

	// stream is audio or sse, "" if the sound is sent as a whole.
	stream string
}

// prepare prepares the speech.
func (q *speechRequest) prepare() *Fault {
	speech, err := speak.New(q.model.Model, q.request)
	if err != nil {
		return faultOf("input", err).renameParam(map[string]string{"text": "input",
			"voice word": "instructions"})
	}
	q.speech = speech
	return nil
}

// handleSpeech answers POST /v1/audio/speech. A text in several parts is always streamed, so that
// its sound is not kept in memory as a whole.
func (s *Server) handleSpeech(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	q := s.readSpeechRequest(f)
	f.release()
	if fault := f.finish(); fault != nil {
		return fault
	}
	if fault := q.prepare(); fault != nil {
		return fault
	}
	if len(q.speech.Parts) > 1 && q.stream == "" {
		q.stream = "audio"
		q.request.Stream = true
		if fault := q.prepare(); fault != nil {
			return fault
		}
	}

	if q.stream != "" {
		if fault := s.countStream(); fault != nil {
			return fault
		}
		defer s.uncountStream()
	}
	w.Header().Set("Unmask-Seed", strconv.FormatUint(q.request.Seed, 10))
	out := &speechAnswer{q: q, w: w}
	if q.stream != "" {
		out.stream = s.newStream(w, r)
	}
	if q.stream == "audio" {
		out.stream.contentType = sound.MediaType(q.format)
	}
	return out.finish(s.runSpeech(r, q, out))
}

// readSpeechRequest reads the fields of a request.
func (s *Server) readSpeechRequest(f *fields) (q speechRequest) {
	q.model = s.model(f, needsSpeech)
	if q.model == nil {
		return q
	}
	q.settings = readSettings(f)
	f.failIf(q.settings.n != 1, rangeFault("n", q.settings.n, "1"))
	if !q.settings.hasSeed {
		q.settings.request.Seed = rand.Uint64N(maxDrawnSeed)
	}
	input := f.requiredText("input")
	f.failIf(len(input) > maxSpeechBytes, fieldFault("context_length_exceeded", "input",
		"input is %d bytes, want at most %d", len(input), maxSpeechBytes))
	q.request = speak.Request{
		Text:      input,
		Language:  f.text("language"),
		Words:     f.text("instructions"),
		Speed:     f.number("speed", speak.SpeedParam),
		Seconds:   f.number("seconds", speak.SecondsParam),
		Seed:      q.settings.request.Seed,
		Preset:    q.settings.request.Preset,
		Overrides: q.settings.request.Overrides,
	}
	q.format = f.oneOf("response_format", sound.Formats...)
	f.requireNeutral("stream", "false") // kokoro-fastapi's name
	if f.has("stream_format") {
		q.stream = f.oneOf("stream_format", "audio", "sse")
		q.request.Stream = true
	}
	q.voice = autoVoice
	if raw := f.value("voice"); jsonline.ValueKind(raw) == "an object" {
		f.readObject("voice", raw, func(o *fields) { q.voice = o.requiredText("id") })
	} else if raw != nil {
		q.voice = f.parseText("voice", raw)
	}
	if q.voice != autoVoice && f.fault == nil {
		s.readVoice(f, &q)
	}
	return q
}

// number reads a number within the bounds of p, 0 where it is absent.
func (f *fields) number(name string, p param.Param) float64 {
	raw := f.value(name)
	if raw == nil {
		return 0
	}
	if jsonline.ValueKind(raw) != "a number" {
		f.failType(name, raw, "a number, "+p.Want())
		return 0
	}
	x, err := p.Float(string(raw))
	if err != nil {
		f.fail(faultOf(name, err))
	}
	return x
}

// voices returns the names of the voices, autoVoice among them, and the files of the others.
func (s *Server) voices() (names []string, files map[string]string) {
	names = []string{autoVoice}
	files = map[string]string{}
	if s.o.Voices == "" {
		return names, files
	}
	entries, _ := os.ReadDir(s.o.Voices) // a folder that is gone has none
	for _, entry := range entries {
		extension := filepath.Ext(entry.Name())
		if extension != ".pt" && extension != ".safetensors" {
			continue
		}
		name := strings.TrimSuffix(entry.Name(), extension)
		if files[name] == "" && name != autoVoice {
			names = append(names, name)
		}
		files[name] = filepath.Join(s.o.Voices, entry.Name())
	}
	return names, files
}

// voiceInfo is a voice in a list. Both fields have its name: Open WebUI reads both.
type voiceInfo struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// answerVoices answers GET /v1/audio/voices, in the form of kokoro-fastapi.
func (s *Server) answerVoices(*http.Request) (any, *Fault) {
	names, _ := s.voices()
	list := []voiceInfo{}
	for _, name := range names {
		list = append(list, voiceInfo{ID: name, Name: name})
	}
	return map[string][]voiceInfo{"voices": list}, nil
}

// readVoice reads the file of the voice that a request names.
func (s *Server) readVoice(f *fields, q *speechRequest) {
	names, files := s.voices()
	file, ok := files[q.voice]
	if !ok {
		f.fail(faultOf("voice", param.Unknown("voice", q.voice, names)))
		return
	}
	voice, err := q.model.Speech.ReadVoice(file)
	if err != nil {
		f.fail(faultOf("voice", err))
		return
	}
	q.request.Voice = voice
}

// runSpeech makes the parts of a request, each a call of its own, so that others take turns with
// it.
func (s *Server) runSpeech(r *http.Request, q speechRequest, out *speechAnswer) *Fault {
	ctx := r.Context()
	for i := range q.speech.Parts {
		request, err := q.speech.Sequence(ctx, i)
		if err != nil {
			return faultOf("input", err).renameParam(map[string]string{"text": "input"})
		}
		codes, fault := s.makeSpeechPart(r, q, i, request)
		if fault != nil {
			return fault
		}
		if err := q.speech.Decode(ctx, i, codes, out.addSamples); err != nil {
			return decodeFault(err)
		}
	}
	if err := q.speech.Finish(out.addSamples); err != nil {
		return decodeFault(err)
	}
	return nil
}

// makeSpeechPart makes the codes of part i.
func (s *Server) makeSpeechPart(r *http.Request, q speechRequest, i int,
	request generate.Request) ([]int32, *Fault) {
	part := query{
		kind:      "speech",
		idPrefix:  "speech-",
		model:     q.model,
		settings:  q.settings,
		sequences: []generate.Request{request},
		answerKey: speechKey{q.request, q.voice, i},
	}
	part.settings.request.Prompt = q.speech.Parts[i]
	part.makeAnswer = func(c *call) (*answer, *Fault) {
		return &answer{body: []byte("{}"), details: slices.Clone(c.Members[0].Tokens)}, nil
	}
	c, _, fault := s.begin(part, keyName(r))
	if fault != nil {
		return nil, fault
	}
	defer s.calls.Unwatch(c.Call)

	notes := notesOf(r)
	notes.rows += c.Rows
	notes.call = c
	if err := c.Wait(r.Context()); err != nil {
		notes.clientGone = true
		return nil, newFault(statusGone, "client_gone", "the client is gone")
	}
	a, fault := callResult(c.Call)
	if fault != nil {
		return nil, fault
	}
	return a.details.([]int32), nil
}

// speechKey is all that the codes of a part depend on.
type speechKey struct {
	Request speak.Request
	Voice   string
	Part    int
}

// speechAnswer is where the sound of a request goes.
type speechAnswer struct {
	q speechRequest
	w http.ResponseWriter

	// stream is nil if the sound is sent as a whole.
	stream *stream

	// encoder writes to unsent in the request's format. It is nil before the first samples.
	encoder sound.Writer

	// unsent are the bytes that were not sent yet.
	unsent bytes.Buffer

	samples int

	// connectionErr is the first error of the connection.
	connectionErr error
}

// addSamples sends a part of the sound, or keeps it for the whole.
func (a *speechAnswer) addSamples(samples []float32) error {
	if a.encoder == nil {
		length := len(samples) // a sound that is sent as a whole comes at once
		if a.stream != nil {
			length = -1
		}
		encoder, err := sound.NewWriter(&a.unsent, a.q.format, a.q.speech.Rate(), length)
		if err != nil {
			return err
		}
		a.encoder = encoder
	}
	if err := a.encoder.Write(samples); err != nil {
		return err
	}
	a.samples += len(samples)
	return a.flush()
}

// flush sends the bytes of a stream.
func (a *speechAnswer) flush() error {
	if a.stream == nil || a.unsent.Len() == 0 {
		return nil
	}
	defer a.unsent.Reset()
	if a.q.stream == "sse" {
		a.connectionErr = a.stream.sendEvent("", "", encodeJSON(map[string]string{
			"type":  "speech.audio.delta",
			"audio": base64.StdEncoding.EncodeToString(a.unsent.Bytes()),
		}))
	} else {
		a.connectionErr = a.stream.write(a.unsent.String())
	}
	if a.connectionErr == nil {
		a.connectionErr = a.stream.flush()
	}
	return a.connectionErr
}

// decodeFault returns the fault of codes that are no sound.
func decodeFault(err error) *Fault {
	return newFault(http.StatusInternalServerError, "decode_failed", "%s", oneLine(err))
}

// finish sends what is left, where f is why the sound ended early, nil if it is complete. It
// returns the fault if nothing was sent.
func (a *speechAnswer) finish(f *Fault) *Fault {
	if f == nil {
		f = a.closeEncoder()
	}
	isSSE := a.q.stream == "sse"
	switch {
	case a.connectionErr != nil:
	case f != nil && (a.stream == nil || !a.stream.hasBegun):
		return f
	case f != nil && isSSE:
		if a.stream.sendEvent("error", "", f.JSON()) == nil {
			_ = a.stream.flush()
		}
	case f != nil:
		// Sound has no place for an error. Ending the connection keeps the client from taking what
		// was sent for all.
		panic(http.ErrAbortHandler)
	case a.stream == nil:
		writeBody(a.w, http.StatusOK, sound.MediaType(a.q.format), a.unsent.Bytes())
	default:
		if a.flush() == nil && isSSE {
			_ = a.stream.sendEvent("", "", encodeJSON(map[string]any{
				"type":  "speech.audio.done",
				"usage": a.usage(),
			}))
			_ = a.stream.flush()
		}
	}
	return nil
}

// closeEncoder ends the sound. Silence is a sound without samples.
func (a *speechAnswer) closeEncoder() *Fault {
	if a.encoder == nil {
		if err := a.addSamples(nil); err != nil {
			return decodeFault(err)
		}
	}
	if err := a.encoder.Close(); err != nil {
		return decodeFault(err)
	}
	return nil
}

// usage counts as OpenAI does: characters for tokens of the text, and frames for those of sound.
func (a *speechAnswer) usage() map[string]int {
	characters := 0
	for _, part := range a.q.speech.Parts {
		characters += len([]rune(part))
	}
	frames := a.samples * omnivoice.FrameRate / a.q.speech.Rate()
	return map[string]int{"input_tokens": characters, "output_tokens": frames,
		"total_tokens": characters + frames}
}
