package speak_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/speak"
	"unmask/testkit/parity"
	"unmask/testkit/refusal"
)

// speaker loads the pack of OmniVoice.
func speaker(t *testing.T) (*unmask.Model, *parity.Pack) {
	p := parity.Open(t, "omnivoice-tiny")
	m, err := unmask.Load(t.Context(), p.Folder(), unmask.Options{Threads: 2})
	require.NoError(t, err)
	return m, p
}

// spoken returns the sound of a request.
func spoken(t *testing.T, m *unmask.Model, r speak.Request) (all []float32) {
	s, err := speak.New(m, r)
	require.NoError(t, err)
	for _, err := range s.Run(t.Context(), func(x []float32) error {
		all = append(all, x...)
		return nil
	}) {
		require.NoError(t, err)
	}
	return all
}

// From a text to its sound, as the pack has it, within a step of 16 bits.
func TestSpokenSound(t *testing.T) {
	m, p := speaker(t)
	voice, err := m.Speech.ReadVoice(filepath.Join(p.Folder(), "voice.pt"))
	require.NoError(t, err)
	over := unmask.Overrides{"sampler": "omnivoice(noise=1e-6)", "steps": "12"}
	for name, r := range map[string]speak.Request{
		"run_plain_sound": {Text: "Two birds sang.", Seconds: 0.36, Overrides: over},
		"run_clone_sound": {Text: "Ask them again!", Seconds: 0.44, Overrides: over, Voice: voice},
	} {
		t.Run(name, func(t *testing.T) {
			want, _ := p.Floats(name)
			got := spoken(t, m, r)
			require.Len(t, got, len(want))
			for i := range want {
				require.InDelta(t, want[i], got[i], 4e-5, "sample %d", i)
			}
		})
	}
}

// A stream is heard after its first sentence, and a book keeps nothing of the parts behind it.
func TestSpokenStream(t *testing.T) {
	m, _ := speaker(t)
	text := "The rain had stopped.\nThe streets were wet. " +
		strings.Repeat("Nobody went out that day, because it was cold. ", 2)
	s, err := speak.New(m, speak.Request{Text: text, Stream: true,
		Overrides: unmask.Overrides{"steps": "2"}})
	require.NoError(t, err)
	require.Equal(t, "The rain had stopped. The streets were wet.", s.Parts[0])
	require.Equal(t, strings.Join(strings.Fields(text), " "), strings.Join(s.Parts, " "))
	require.Greater(t, len(s.Parts), 1)
	heard := 0
	for step, err := range s.Run(t.Context(), func(x []float32) error { heard++; return nil }) {
		require.NoError(t, err)
		require.Equal(t, step.Part, heard, "parts before have been heard")
		require.Zero(t, s.Held())
	}
	require.Equal(t, len(s.Parts)+1, heard) // and the end
	require.Zero(t, s.Held())

	s, err = speak.New(m, speak.Request{Text: strings.Repeat(text, 500)})
	require.NoError(t, err)
	require.Equal(t, "The rain had stopped. The streets were wet.", s.Parts[0]) // a book is a stream
}

// The parts after the first continue it, by the same seed to the same bytes.
func TestSpokenParts(t *testing.T) {
	m, _ := speaker(t)
	r := speak.Request{Text: "Nobody went out. It was cold, and then it rained. Why?", Seed: 3,
		Overrides: unmask.Overrides{"steps": "2"}, Stream: true}
	s, err := speak.New(m, r)
	require.NoError(t, err)
	require.Len(t, s.Parts, 2)
	one := spoken(t, m, r)
	require.Equal(t, one, spoken(t, m, r))
	r.Speed = 2
	require.InDelta(t, 0.45, float64(len(spoken(t, m, r)))/float64(len(one)), 0.1)
	r.Speed, r.Seed = 0, 4
	require.NotEqual(t, one, spoken(t, m, r))
}

func TestSpeechRefusals(t *testing.T) {
	m, _ := speaker(t)
	for want, r := range map[string]speak.Request{
		`text is "", want something to say`:        {Text: " \n "},
		`text is "a\xff"`:                          {Text: "a\xff"},
		`language is "Englsh", want an id such as`: {Text: "a", Language: "Englsh"},
		`unknown voice word "loud"`:                {Text: "a", Words: "male, loud"},
		"speed is 9":                               {Text: "a", Speed: 9},
		"seconds is 61":                            {Text: "a", Seconds: 61},
		"seconds is -1":                            {Text: "a", Seconds: -1},
	} {
		_, err := speak.New(m, r)
		refusal.RequireText(t, err, want)
	}
	s, err := speak.New(m, speak.Request{Text: "a", Overrides: unmask.Overrides{"steps": "0"}})
	require.NoError(t, err)
	_, err = s.Sequence(t.Context(), 0)
	refusal.Require(t, err, "steps", "0")
	other, err := unmask.Load(t.Context(), parity.Open(t, "llada-tiny").Folder(), unmask.Options{})
	require.NoError(t, err)
	_, err = speak.New(other, speak.Request{Text: "a"})
	refusal.RequireText(t, err, "the model does not speak")
}
