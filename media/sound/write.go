package sound

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/mewkiz/flac"
	"github.com/mewkiz/flac/frame"
	"github.com/mewkiz/flac/meta"

	"unmask/param"
)

// Formats are the names of the formats that NewWriter writes: PCM is 16 bit little-endian numbers
// without a header.
var Formats = []string{"wav", "flac", "pcm"}

// MediaType returns the media type of a format.
func MediaType(format string) string {
	if format == "pcm" {
		return "audio/pcm"
	}
	return "audio/" + format
}

// Writer writes a sound as it comes.
type Writer interface {
	Write(sound []float32) error
	// Close writes what is left, and the length to the header where the file has WriteAt. It does
	// not close the file.
	Close() error
}

// NewWriter returns a Writer of a format. samples is the length of the sound, -1 if it is unknown.
// Another format than those of Formats is an error, and one of w, to which the header goes at once.
func NewWriter(w io.Writer, format string, rate, samples int) (Writer, error) {
	switch format {
	case "pcm":
		return &pcm{w: w}, nil
	case "wav":
		f := &wav{pcm: pcm{w: w}, rate: rate, samples: samples}
		_, err := w.Write(f.header(samples))
		return f, err
	case "flac":
		return newFLAC(w, rate, samples)
	}
	return nil, param.Unknown("format", format, Formats)
}

// toInt16 returns the 16 bit number of a sample.
func toInt16(x float32) int16 {
	return int16(math.RoundToEven(max(-1, min(float64(x), 1)) * math.MaxInt16))
}

// pcm writes numbers without a header.
type pcm struct {
	w     io.Writer
	bytes []byte // memory of one call
}

// Write writes samples of -1 to 1 as numbers of 16 bits.
func (p *pcm) Write(x []float32) error {
	p.bytes = p.bytes[:0]
	for _, v := range x {
		p.bytes = binary.LittleEndian.AppendUint16(p.bytes, uint16(toInt16(v)))
	}
	_, err := p.w.Write(p.bytes)
	return err
}

func (p *pcm) Close() error { return nil }

// wav is a RIFF file. Its sizes are the largest where the length is unknown, which programs read as
// a stream.
type wav struct {
	pcm
	rate    int
	samples int // that the header says, -1 if it is unknown
	written int // samples
}

// wavHeader is the length of the header in bytes.
const wavHeader = 44

// header returns the header of a file with a number of samples, -1 if it is unknown.
func (f *wav) header(samples int) []byte {
	const maxSize = math.MaxUint32
	size := uint32(maxSize - wavHeader + 8)
	if samples >= 0 && 2*int64(samples) < int64(size) {
		size = uint32(2 * samples)
	}
	order := binary.LittleEndian
	b := order.AppendUint32([]byte("RIFF"), size+wavHeader-8)
	b = append(b, "WAVEfmt "...)
	b = order.AppendUint32(b, 16)
	b = order.AppendUint16(order.AppendUint16(b, 1), 1) // numbers, one channel
	b = order.AppendUint32(order.AppendUint32(b, uint32(f.rate)), uint32(2*f.rate))
	b = order.AppendUint16(order.AppendUint16(b, 2), 16) // bytes and bits of a sample
	return order.AppendUint32(append(b, "data"...), size)
}

func (f *wav) Write(x []float32) error {
	f.written += len(x)
	return f.pcm.Write(x)
}

// Close corrects the header where the number of samples was not known before, if the file can be
// written at a place.
func (f *wav) Close() error {
	if file, ok := f.w.(io.WriterAt); ok && f.written != f.samples {
		_, err := file.WriteAt(f.header(f.written), 0)
		return err
	}
	return nil
}

// flacFile is a FLAC file of fixed predictors.
type flacFile struct {
	e       *flac.Encoder
	pending []int32
}

// flacBlock is the samples of a frame of FLAC.
const flacBlock = 4096

// newFLAC begins a FLAC file. Its header is completed at the end if w can be written at a place.
func newFLAC(w io.Writer, rate, samples int) (*flacFile, error) {
	info := &meta.StreamInfo{
		BlockSizeMin:  flacBlock,
		BlockSizeMax:  flacBlock,
		NChannels:     1,
		SampleRate:    uint32(rate),
		BitsPerSample: 16,
		NSamples:      uint64(max(samples, 0)),
	}
	target := io.Writer(onlyWriter{w})
	if file, ok := w.(io.WriterAt); ok {
		target = &seeker{onlyWriter: onlyWriter{w}, file: file, offset: -1}
	}
	e, err := flac.NewEncoder(target, info)
	return &flacFile{e: e}, err
}

// onlyWriter hides a file's Close from the encoder.
type onlyWriter struct{ io.Writer }

// seeker lets the encoder write its header again.
type seeker struct {
	onlyWriter
	file   io.WriterAt
	offset int64 // of the next Write; -1: at the end
}

// Seek implements io.Seeker, for places from the beginning.
func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekStart {
		return 0, fmt.Errorf("sound: seek from %d, want from the beginning", whence)
	}
	s.offset = offset
	return offset, nil
}

// Write writes on, or at the place that Seek went to.
func (s *seeker) Write(p []byte) (int, error) {
	if s.offset < 0 {
		return s.onlyWriter.Write(p)
	}
	n, err := s.file.WriteAt(p, s.offset)
	s.offset += int64(n)
	return n, err
}

// Write collects samples and writes each full frame.
func (f *flacFile) Write(x []float32) error {
	for _, v := range x {
		f.pending = append(f.pending, int32(toInt16(v)))
		if len(f.pending) == flacBlock {
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush writes the samples that are pending as a frame, which may be shorter than the others if it
// is the last.
func (f *flacFile) flush() error {
	n := len(f.pending)
	if n == 0 {
		return nil
	}
	header := frame.Header{
		HasFixedBlockSize: true,
		BlockSize:         uint16(n),
		SampleRate:        f.e.Info.SampleRate,
		Channels:          frame.ChannelsMono,
		BitsPerSample:     16,
	}
	part := &frame.Subframe{SubHeader: frame.SubHeader{Pred: frame.PredVerbatim}, // or a better one
		Samples: f.pending, NSamples: n}
	err := f.e.WriteFrame(&frame.Frame{Header: header, Subframes: []*frame.Subframe{part}})
	f.pending = nil
	return err
}

// Close writes the last frame and the header.
func (f *flacFile) Close() error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.e.Close()
}
