package omnivoice

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"unmask/testkit/refusal"
)

// rules are the cases of the pack speech-rules.
type rules struct {
	Weights   map[string]float64
	Durations []struct {
		Text    string
		Speed   float64
		RefText string `json:"ref_text"`
		Ref     int    `json:"ref_frames"`
		Seconds float64
		Frames  int
	}
	Chunks []struct {
		Text   string
		Length int
		Chunks []string
	}
	Long struct {
		Text   string
		Frames int
		Length int
		Of     []int `json:"frames_of_chunks"`
		Voice  struct {
			RefText string `json:"ref_text"`
			Ref     int    `json:"ref_frames"`
			Frames  int
			Length  int
			Of      []int `json:"frames_of_chunks"`
		} `json:"with_voice"`
	}
	Words []struct {
		Instruct, Text string
		Words          *string
		Error          string
	} `json:"voice_words"`
	Clean []struct{ Text, Before, Clean string }
	Ended []struct{ Text, Closed string } `json:"closed"`
}

func readRules(t testing.TB) (r rules) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "packs", "speech-rules",
		"cases.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	return r
}

func TestLengths(t *testing.T) {
	r := readRules(t)
	for text, want := range r.Weights {
		c, _ := utf8.DecodeRuneInString(text)
		require.Equal(t, want, letterWeight(c), "%q", text)
	}
	for _, d := range r.Durations {
		p := Pace{Speed: d.Speed, Seconds: d.Seconds, Text: d.RefText, Frames: d.Ref}
		require.Equal(t, d.Frames, p.FrameCount(d.Text), "%+v", d)
	}
}

func TestParts(t *testing.T) {
	r := readRules(t)
	for _, c := range r.Chunks {
		got := SplitParts(c.Text, c.Length)
		require.Equal(t, append([]string{}, c.Chunks...), append([]string{}, got...),
			"%q of %d", c.Text, c.Length)
	}
	require.Equal(t, r.Long.Frames, Pace{}.FrameCount(r.Long.Text))
	parts := SplitLong(r.Long.Text, Pace{})
	require.Equal(t, SplitParts(r.Long.Text, r.Long.Length), parts)
	// without a voice the first part is the voice of the others
	first := Pace{}.FrameCount(parts[0])
	got := []int{first}
	for _, p := range parts[1:] {
		got = append(got, Pace{Text: parts[0], Frames: first}.FrameCount(p))
	}
	require.Equal(t, r.Long.Of, got)

	v := Pace{Text: r.Long.Voice.RefText, Frames: r.Long.Voice.Ref}
	require.Equal(t, r.Long.Voice.Frames, v.FrameCount(r.Long.Text))
	got = nil
	for _, p := range SplitLong(r.Long.Text, v) {
		got = append(got, v.FrameCount(p))
	}
	require.Equal(t, r.Long.Voice.Of, got)
}

// No part is longer than what the model makes at once, whatever the text.
func TestPartsAreBounded(t *testing.T) {
	for name, text := range map[string]string{"one word": strings.Repeat("a", 100_000),
		"no marks": strings.Repeat("many words ", 10_000), "digits": strings.Repeat("7", 5000),
		"Chinese": strings.Repeat("好", 20_000)} {
		t.Run(name, func(t *testing.T) {
			for _, pace := range []Pace{{}, {Speed: 0.5}, {Text: "Hello there.", Frames: 200}} {
				parts := SplitLong(text, pace)
				for _, p := range parts {
					require.LessOrEqual(t, pace.FrameCount(p), MaxFrames)
					require.True(t, utf8.ValidString(p))
				}
				require.Equal(t, strings.ReplaceAll(text, " ", ""),
					strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
			}
		})
	}
}

func TestVoiceWords(t *testing.T) {
	for _, w := range readRules(t).Words {
		got, err := ParseDesign(w.Instruct, w.Text)
		if w.Error != "" {
			require.Error(t, err, "%q", w.Instruct)
			continue
		}
		require.NoError(t, err)
		if w.Words == nil {
			require.Empty(t, got)
		} else {
			require.Equal(t, *w.Words, got)
		}
	}
	_, err := ParseDesign("femal, whisper", "")
	refusal.RequireText(t, err, `unknown voice word "femal" (did you mean female?)`)
	_, err = ParseDesign("male, female", "")
	refusal.RequireText(t, err, `voice is "female" with "male 男"`)
}

func TestClean(t *testing.T) {
	r := readRules(t)
	for _, c := range r.Clean {
		require.Equal(t, c.Clean, CleanText(c.Text, c.Before), "%q after %q", c.Text, c.Before)
	}
	for _, c := range r.Ended {
		require.Equal(t, c.Closed, AddFullStop(c.Text), "%q", c.Text)
	}
}

func TestLanguages(t *testing.T) {
	for text, want := range map[string]string{"": "", "en": "en", " EN ": "en", "English": "en",
		"pt-BR": "pt", "eng": "en", "yue": "yue", "German": "de",
		// _resolve_language of omnivoice 0.2.1
		"Norwegian": "no", "Yiddish": "yi", "Bengali": "bn", "Chichewa": "ny", "haitian": "ht",
		"Panjabi": "pa", "Kirghiz": "ky", "Uighur": "ug", "Igo": "ahl", "LAO": "lo", "Ömie": "aom",
		"du\u0303ya": "ldb", "Aja (Benin)": "ajg",
		// CLDR's
		"D\u0169ya": "ldb", "Punjabi": "pa", "Pashto": "ps", "Arabic": "arb"} {
		got, err := FindLanguage(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	names, ids := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(languages) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		got, err := FindLanguage(strings.ToUpper(name))
		require.NoError(t, err, name)
		require.Equal(t, id, got, name)
		names[name], ids[id] = true, true
	}
	require.Len(t, names, 646)
	require.Len(t, ids, 646)
	for text, want := range map[string]string{"englsh": "did you mean english?", "xx": "language is",
		"klingon": "want an id such as en"} {
		_, err := FindLanguage(text)
		require.ErrorContains(t, err, want)
	}
}
