package omnivoice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"unmask/param"
	"unmask/weights"
	"unmask/weights/pytorch"
)

// Voice is a voice as codes, which sequences continue.
type Voice struct {
	Codes []int32 // [frames, books]
	Text  string  // what it says
	RMS   float64 // root mean square of its sound, below 0.1 if it is quiet; 0: not known
}

// maxVoiceFrames is the largest number of frames of a voice: 30 seconds.
const maxVoiceFrames = 30 * FrameRate

// Frames returns the length of a voice.
func (v *Voice) Frames(books int) int { return len(v.Codes) / books }

// Pace returns the pace of a voice.
func (v *Voice) Pace(books int) Pace { return Pace{Text: v.Text, Frames: v.Frames(books)} }

// ReadVoice reads a voice file of a model: the authors' (VoiceClonePrompt.save, a file of
// torch.save) or one of WriteVoice.
func (m *Model) ReadVoice(name string) (*Voice, error) {
	read := readPyTorch
	if strings.HasSuffix(name, ".safetensors") {
		read = readVoice
	}
	v, shape, err := read(name)
	if err == nil {
		err = m.transposeCodes(v, shape)
	}
	if err != nil {
		return nil, param.WithName("voice", err)
	}
	v.Text = AddFullStop(v.Text)
	return v, nil
}

// transposeCodes makes codes [books, frames] of a voice, as files have them, [frames, books].
func (m *Model) transposeCodes(v *Voice, shape []int) error {
	if len(shape) != 2 || shape[0] != m.codebooks || shape[1] < 1 || shape[1] > maxVoiceFrames {
		return fmt.Errorf("codes are %v, want [%d, 1 to %d frames]", shape, m.codebooks, maxVoiceFrames)
	}
	turned := make([]int32, len(v.Codes))
	for i, code := range v.Codes {
		if code < 0 || int(code) >= m.codes {
			return fmt.Errorf("code is %d, want 0 to %d", code, m.codes-1)
		}
		turned[i%shape[1]*m.codebooks+i/shape[1]] = code
	}
	v.Codes = turned
	return nil
}

// readPyTorch reads a file of the authors.
func readPyTorch(name string) (*Voice, []int, error) {
	c, err := pytorch.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	v := new(Voice)
	v.Text, _ = c.Value("ref_text").(string)
	v.RMS, _ = c.Value("ref_rms").(float64)
	if version := c.Value("format_version"); version != any(int64(1)) {
		return nil, nil, fmt.Errorf("format_version is %v, want 1", version)
	}
	for _, t := range c.Tensors() {
		if t.Name == "ref_audio_tokens" && t.DType == weights.I64 {
			v.Codes, err = readCodes(t)
			return v, t.Shape, err
		}
	}
	return nil, nil, errors.New("there are no ref_audio_tokens of whole numbers, want them")
}

// readCodes reads codes of 64 bits; those that cannot be codes are -1.
func readCodes(t *pytorch.Tensor) ([]int32, error) {
	if t.Numel() > maxVoiceFrames*64 {
		return nil, fmt.Errorf("codes are %v, want fewer", t.Shape)
	}
	r, err := t.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	codes := make([]int32, 0, len(data)/8)
	for ; len(data) >= 8; data = data[8:] {
		codes = append(codes, toCode(int64(binary.LittleEndian.Uint64(data))))
	}
	return codes, nil
}

func toCode(x int64) int32 {
	if x < 0 || x > math.MaxInt32 {
		return -1
	}
	return int32(x)
}

// readVoice reads a file of WriteVoice.
func readVoice(name string) (*Voice, []int, error) {
	set, err := weights.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer set.Close()
	t, ok := set.Get("codes")
	if !ok {
		return nil, nil, errors.New(`there is no tensor "codes", want one`)
	}
	long, err := t.Int64s()
	if err != nil {
		return nil, nil, err
	}
	more := set.Metadata()
	v := &Voice{Text: more["text"]}
	if more["rms"] != "" {
		if v.RMS, err = strconv.ParseFloat(more["rms"], 64); err != nil || !(v.RMS >= 0 && v.RMS < 1e6) {
			return nil, nil, fmt.Errorf("rms is %s, want a number from 0", param.Quote(more["rms"]))
		}
	}
	for _, x := range long {
		v.Codes = append(v.Codes, toCode(x))
	}
	return v, t.Shape, nil
}

// WriteVoice writes a voice as safetensors: codes [books, frames], and text and rms as metadata.
func (m *Model) WriteVoice(name string, v *Voice) error {
	frames := v.Frames(m.codebooks)
	data := make([]byte, 8*len(v.Codes))
	for i, code := range v.Codes {
		binary.LittleEndian.PutUint64(data[8*(i%m.codebooks*frames+i/m.codebooks):], uint64(code))
	}
	more := map[string]string{"text": v.Text}
	if v.RMS > 0 {
		more["rms"] = param.Format(v.RMS)
	}
	return weights.WriteFile(name, []weights.Tensor{{Name: "codes", DType: weights.I64,
		Shape: []int{m.codebooks, frames}, Data: data}}, more)
}
