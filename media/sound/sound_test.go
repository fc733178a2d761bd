package sound

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/mewkiz/flac"
	"github.com/stretchr/testify/require"

	"unmask/testkit/refusal"
	"unmask/weights"
)

const rate = 24000

// cases are those of the pack speech-rules.
func cases(t *testing.T) func(name string) []float32 {
	set, err := weights.Open(filepath.Join("..", "..", "testdata", "packs", "speech-rules",
		"cases.safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { set.Close() })
	return func(name string) []float32 {
		v, ok := set.Get(name)
		require.True(t, ok, name)
		x := make([]float32, v.Numel())
		require.NoError(t, v.Float32s(x))
		return x
	}
}

// near requires equal lengths and samples within a small part of a 16 bit step.
func near(t *testing.T, want, got []float32) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.InDelta(t, want[i], got[i], 1e-6, "sample %d", i)
	}
}

func TestSilences(t *testing.T) {
	of := cases(t)
	var notes struct {
		Silence []struct {
			Case   string
			Middle int `json:"middle_ms"`
			Lead   int `json:"lead_ms"`
			Trail  int `json:"trail_ms"`
		}
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "packs", "speech-rules",
		"cases.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &notes))
	for _, s := range notes.Silence {
		t.Run(s.Case, func(t *testing.T) {
			got := Silences{s.Middle, s.Lead, s.Trail}.Cut(of(s.Case), rate)
			near(t, of(s.Case+"_without"), got)
		})
	}
}

func TestFinish(t *testing.T) {
	of := cases(t)
	x := func() []float32 { return of("silence_3") }
	near(t, of("finished"), Finish(x(), rate, 0))
	near(t, of("finished_quiet"), Finish(x(), rate, 0.03))
	near(t, of("finished_loud"), Finish(x(), rate, 0.3))
	near(t, of("joined"), Join([][]float32{of("silence_1"), x()[:1000], of("silence_1")}, rate))
	require.Empty(t, Finish(make([]float32, 50_000), rate, 0)) // silence alone
	require.Empty(t, Finish(nil, rate, 0))
}

func TestStream(t *testing.T) {
	s := Stream{Rate: rate}
	require.Empty(t, s.AddPart(make([]float32, 50_000)))
	require.Len(t, s.AddPart(make([]float32, 9000)), 2*rate/10) // silence sets no volume
	x := cases(t)("silence_3")
	first := s.AddPart(append([]float32(nil), x...))
	near(t, cases(t)("finished")[:len(first)], first)
	half := append([]float32(nil), x...)
	for i := range half {
		half[i] *= 0.8
	}
	second := s.AddPart(half)
	require.InDelta(t, 0.8*peak(first), peak(second), 1e-3)
	require.Len(t, s.Finish(), rate/10)
}

func peak(x []float32) (top float32) {
	for _, v := range x {
		top = max(top, v, -v)
	}
	return top
}

// file is a file in memory whose beginning can be written again.
type file struct{ bytes.Buffer }

func (f *file) WriteAt(p []byte, at int64) (int, error) { return copy(f.Bytes()[at:], p), nil }

func TestWriters(t *testing.T) {
	x := cases(t)("silence_3")
	x[7], x[8] = 2, -2 // too loud
	var want []int16
	for _, v := range x {
		want = append(want, toInt16(v))
	}
	require.Equal(t, []int16{32767, -32767}, want[7:9])
	for _, format := range Formats {
		var known bytes.Buffer
		var later file
		write(t, &known, format, x, len(x))
		write(t, &later, format, x, -1)
		for _, data := range [][]byte{known.Bytes(), later.Bytes()} {
			require.Equal(t, want, read(t, format, data, len(x)))
		}
	}
	_, err := NewWriter(new(bytes.Buffer), "mp3", rate, 0)
	refusal.RequireText(t, err, `unknown format "mp3"`)
}

func write(t *testing.T, to io.Writer, format string, x []float32, n int) {
	w, err := NewWriter(to, format, rate, n)
	require.NoError(t, err)
	require.NoError(t, w.Write(x[:5000]))
	require.NoError(t, w.Write(x[5000:]))
	require.NoError(t, w.Close())
}

// read returns the numbers of a file, whose header must have its length.
func read(t *testing.T, format string, data []byte, n int) (x []int16) {
	switch format {
	case "wav":
		require.Equal(t, "RIFF", string(data[:4]))
		require.EqualValues(t, len(data)-8, binary.LittleEndian.Uint32(data[4:]))
		require.EqualValues(t, rate, binary.LittleEndian.Uint32(data[24:]))
		require.EqualValues(t, 2*n, binary.LittleEndian.Uint32(data[40:]))
		data = data[wavHeader:]
	case "flac":
		s, err := flac.Parse(bytes.NewReader(data))
		require.NoError(t, err)
		require.EqualValues(t, n, s.Info.NSamples)
		require.Less(t, len(data), 2*n)
		for len(x) < n {
			f, err := s.ParseNext()
			require.NoError(t, err)
			for _, v := range f.Subframes[0].Samples {
				x = append(x, int16(v))
			}
		}
		return x
	}
	for ; len(data) > 0; data = data[2:] {
		x = append(x, int16(binary.LittleEndian.Uint16(data)))
	}
	return x
}
