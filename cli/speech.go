package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/families/omnivoice"
	"unmask/generate"
	"unmask/internal/atomicfile"
	"unmask/internal/textfile"
	"unmask/media/sound"
	"unmask/param"
	"unmask/speak"
)

// speechFlags are the flags of unmask speech.
type speechFlags struct {
	deviceFlags
	samplingFlags
	textArg   string
	textFile  string
	out       string
	format    string
	language  string
	voice     string
	codes     string
	saveVoice string
	preset    string
	speed     float64
	seconds   float64
	json      bool
	watch     bool
}

// omniVoice is the model that speaks where none is named.
const omniVoice = "k2-fsa/OmniVoice"

// command returns the command with these flags.
func (f *speechFlags) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "speech [TEXT]",
		Short: "Turn text into speech",
		Long: `Turn text into speech: a WAV, a FLAC or a PCM file (16 bit, 24000 samples a second), or to
standard output with --out -.

The model is OmniVoice, whose weights are CC-BY-NC: they may not be used commercially. It speaks in a
voice that --voice describes, with words such as "female, low pitch, british accent", or continues the
voice of a file: one of its authors' program (VoiceClonePrompt.save), or one of --save-voice.

Up to ten minutes of sound are finished together. A longer text, and one to standard output, is spoken
part by part, and each part is written when it is done; the first is a sentence.`,
		Args: textArg("said"),
		Example: `  unmask speech "Good morning." --out a.wav
  unmask speech "Good morning." --voice "female, low pitch" --speed 1.2 --out a.flac
  unmask speech --text book.txt --out - --format pcm | aplay -f S16_LE -r 24000
  unmask speech "Guten Morgen." --language de --steps 16 --precision int8 --out a.wav
  unmask speech "It is I." --save-voice me.safetensors --out i.wav
  unmask speech "It is I again." --voice me.safetensors --out again.wav`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := setTextFlag(cmd, "said", args); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.Flags())
		},
	}
	s := cmd.Flags()
	f.deviceFlags.register(s, omniVoice)
	published, err := generate.ParseRecipe(omnivoice.Recipe)
	if err != nil {
		panic(err) // it is a constant
	}
	flags.RegisterRecipe(s, published)
	addSeedFlag(s, &f.seed, "same seed, same sound")
	s.StringVar(&f.textArg, "said", "", "the `TEXT`, as the argument")
	s.StringVar(&f.textFile, "text", "", "a `FILE` with the text, - for standard input")
	s.StringVar(&f.out, "out", "", "the sound's `FILE`: .wav, .flac or .pcm; - for standard output")
	s.StringVar(&f.format, "format", "", "wav, flac or pcm (default by the file's name)")
	s.StringVar(&f.language, "language", "", "language of the text: an id such as en, or an English name")
	s.StringVar(&f.voice, "voice", "", "`WORDS` that describe a voice, or a voice's FILE")
	s.StringVar(&f.preset, "preset", "", "`NAME` of a published run: fast")
	flags.Float(s, &f.speed, speak.SpeedParam)
	flags.Float(s, &f.seconds, speak.SecondsParam)
	s.StringVar(&f.codes, "codes", "", "decode the codes of this voice `FILE` instead of speaking a text")
	s.StringVar(&f.saveVoice, "save-voice", "",
		"write the codes of the first part to this `FILE`.safetensors, a voice for --voice")
	s.BoolVar(&f.json, "json", false, "one JSON object per part and line: part, text, seed, frames, "+
		"steps, seconds")
	s.BoolVar(&f.watch, "watch", false, "show the frames in the terminal while their codes open")
	cmd.MarkFlagRequired("out")
	return cmd
}

// run speaks the text, or decodes the codes of a voice.
func (f *speechFlags) run(ctx context.Context, set *pflag.FlagSet) error {
	overrides, err := f.readOverrides(set)
	if err != nil {
		return err
	}
	if err := f.checkFlags(set); err != nil {
		return err
	}
	text, err := f.readText()
	if err != nil {
		return err
	}
	m, err := f.loadModel(ctx)
	if err != nil {
		return err
	}
	if m.Speech == nil {
		return usagef("--model %s is a %s, which does not speak", f.model, m.Info.Architecture)
	}
	r := speak.Request{
		Text:      text,
		Language:  f.language,
		Speed:     f.speed,
		Seconds:   f.seconds,
		Stream:    f.out == "-",
		Seed:      f.seed,
		Preset:    f.preset,
		Overrides: overrides,
	}
	r.Words, r.Voice, err = f.readVoice(m, f.voice)
	if err != nil {
		return err
	}
	if f.codes != "" {
		return f.writeSound(func(w *soundFile) error { return f.decodeVoice(ctx, m, w) })
	}
	s, err := speak.New(m, r)
	if err != nil {
		return flags.NameFlag(err)
	}
	return f.writeSound(func(w *soundFile) error { return f.speakText(ctx, m, s, w) })
}

// checkFlags returns an error for flags that exclude each other and for files that cannot be
// written.
func (f *speechFlags) checkFlags(set *pflag.FlagSet) error {
	if f.format == "" && f.out != "-" {
		f.format = strings.TrimPrefix(strings.ToLower(filepath.Ext(f.out)), ".")
	} else if f.format == "" {
		f.format = "wav"
	}
	sources := countTrue(f.textArg != "", f.textFile != "", f.codes != "")
	switch {
	case !slices.Contains(sound.Formats, f.format):
		return usagef("--format is %s, want %s", param.Quote(f.format), param.JoinOr(sound.Formats))
	case sources != 1 && !set.Changed("said"):
		return usagef("want a TEXT, --text FILE or --codes FILE, one of them")
	case f.json && f.out == "-":
		return usagef("--json with --out -, want a file for one of the two")
	case f.out == "-" && term.IsTerminal(int(os.Stdout.Fd())):
		return usagef("--out - on a terminal, want a pipe or a file")
	case f.watch && !terminal.CanRedraw(os.Stderr):
		return usagef("--watch needs a terminal on standard error")
	case f.saveVoice != "" && !strings.HasSuffix(f.saveVoice, ".safetensors"):
		return usagef("--save-voice is %s, want a name that ends in .safetensors", param.Quote(f.saveVoice))
	}
	if f.out != "-" {
		if err := checkFile("--out", f.out); err != nil {
			return err
		}
	}
	return checkFile("--save-voice", f.saveVoice)
}

// readText returns the text.
func (f *speechFlags) readText() (string, error) {
	switch f.textFile {
	case "":
		return f.textArg, nil
	case "-":
		data, err := io.ReadAll(io.LimitReader(os.Stdin, speak.MaxTextBytes+1))
		return textfile.TrimMark(string(data)), wrapError("standard input", err)
	}
	data, err := atomicfile.ReadSmall(f.textFile, speak.MaxTextBytes)
	return string(data), wrapError("--text", err)
}

// readVoice returns the words of a voice or, if there is a file of this name, its codes.
func (f *speechFlags) readVoice(m *unmask.Model, voice string) (string, *omnivoice.Voice, error) {
	ext := filepath.Ext(voice)
	if _, err := os.Stat(voice); voice == "" ||
		errors.Is(err, fs.ErrNotExist) && ext != ".pt" && ext != ".safetensors" {
		return voice, nil, nil
	}
	v, err := m.Speech.ReadVoice(voice)
	return "", v, wrapError("--voice", err)
}

// soundFile is the file that a sound goes to. It is opened with the first samples, because the rate
// is known only then.
type soundFile struct {
	flags *speechFlags
	out   io.Writer

	// file is nil for standard output.
	file *atomicfile.File

	writer sound.Writer

	// rate is in samples a second; samples counts those that were written.
	rate    int
	samples int
}

// writeSamples writes a part of the sound.
func (s *soundFile) writeSamples(x []float32) (err error) {
	if s.writer == nil {
		s.writer, err = sound.NewWriter(s.out, s.flags.format, s.rate, -1)
		if err != nil {
			return err
		}
	}
	s.samples += len(x)
	return s.writer.Write(x)
}

// writeSound calls do with the file of --out, and finishes that.
func (f *speechFlags) writeSound(do func(w *soundFile) error) error {
	w := &soundFile{flags: f, out: stdout}
	if f.out != "-" {
		file, err := atomicfile.Create(f.out)
		if err != nil {
			return wrapError("--out", err)
		}
		defer file.Discard()
		w.file = file
		w.out = file
	}
	if err := do(w); err != nil {
		return err
	}
	if w.samples == 0 {
		terminal.Logf("the sound is silence")
	}
	if err := w.writeSamples(nil); err != nil {
		return err
	}
	if err := w.writer.Close(); err != nil || w.file == nil {
		return err
	}
	if err := w.file.Commit(); err != nil {
		return wrapError("--out", err)
	}
	if f.json {
		terminal.Log(f.out)
		return nil
	}
	return printLine(f.out)
}

// decodeVoice writes the sound of a voice's codes, as it is.
func (f *speechFlags) decodeVoice(ctx context.Context, m *unmask.Model, w *soundFile) error {
	v, err := m.Speech.ReadVoice(f.codes)
	if err != nil {
		return wrapError("--codes", err)
	}
	c, err := m.Speech.Codec()
	if err != nil {
		return err
	}
	w.rate = c.SampleRate()
	return c.Decode(ctx, v.Codes, w.writeSamples)
}

// speechLine is a line of --json.
type speechLine struct {
	Part    int     `json:"part"`
	Text    string  `json:"text"`
	Seed    uint64  `json:"seed"`
	Frames  int     `json:"frames"`
	Steps   int     `json:"steps"`
	Seconds float64 `json:"seconds"` // that it took
}

// speakText writes the sound of a text.
func (f *speechFlags) speakText(ctx context.Context, m *unmask.Model, s *speak.Speech,
	w *soundFile) error {
	w.rate = s.Rate()
	began := time.Now()
	books := m.Speech.Codebooks()
	p := terminal.LazyProgress{Label: "steps"}
	defer p.Close()
	line := speechLine{}
	for step, err := range s.Run(ctx, w.writeSamples) {
		if err != nil {
			return flags.NameFlag(err)
		}
		q := step.Sequences[0]
		if f.watch {
			drawFrames(q.Tokens, m.Spec().Mask, books, step.Part, len(s.Parts))
		} else {
			p.Set(step.Part*q.Steps+q.N, len(s.Parts)*q.Steps)
		}
		line.Seconds += step.Seconds
		if !q.Done {
			continue
		}
		if f.saveVoice != "" && step.Part == 0 {
			if err := m.Speech.WriteVoice(f.saveVoice, s.Voice(0, q.Tokens)); err != nil {
				return wrapError("--save-voice", err)
			}
		}
		line.Part = step.Part
		line.Text = s.Parts[step.Part]
		line.Seed = f.seed
		line.Frames = len(q.Tokens) / books
		line.Steps = q.N
		if f.json {
			if err := json.NewEncoder(stdout).Encode(line); err != nil {
				return err
			}
		}
		line = speechLine{}
	}
	soundSeconds := float64(w.samples) / float64(w.rate)
	terminal.Logf("%.1f s of sound in %.1f s", soundSeconds, time.Since(began).Seconds())
	return nil
}

// drawFrames redraws a line on standard error: how many codes each first frame has.
func drawFrames(codes []int32, mask int32, books, part, parts int) {
	const maxFrames = 64
	levels := []rune(" ▁▂▃▄▅▆▇█")
	var b strings.Builder
	for i := 0; i < len(codes) && i < maxFrames*books; i += books {
		open := 0
		for _, code := range codes[i : i+books] {
			if code != mask {
				open++
			}
		}
		b.WriteRune(levels[open*(len(levels)-1)/books])
	}
	end := ""
	if !slices.Contains(codes, mask) {
		end = "\n"
	}
	fmt.Fprintf(os.Stderr, "\r%d of %d |%s|%s", part+1, parts, b.String(), end)
}
