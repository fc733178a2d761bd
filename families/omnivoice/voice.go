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
	Codes []int32 // [frames, codebooks]
	Text  string  // what it says

	// RMS is the root mean square of its sound, below 0.1 if it is quiet, and 0 if it is not known.
	RMS float64
}

// maxVoiceFrames is the largest number of frames of a voice: 30 seconds.
const maxVoiceFrames = 30 * FrameRate

// Frames returns the number of frames of a voice of so many codebooks.
func (v *Voice) Frames(codebooks int) int { return len(v.Codes) / codebooks }

// Pace returns the pace of a voice of so many codebooks.
func (v *Voice) Pace(codebooks int) Pace { return Pace{Text: v.Text, Frames: v.Frames(codebooks)} }

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

// transposeCodes makes the codes of a voice [frames, codebooks]; files have them [codebooks,
// frames].
func (m *Model) transposeCodes(v *Voice, shape []int) error {
	if len(shape) != 2 || shape[0] != m.codebooks || shape[1] < 1 || shape[1] > maxVoiceFrames {
		return fmt.Errorf("codes are %v, want [%d, 1 to %d frames]", shape, m.codebooks, maxVoiceFrames)
	}
	frames := shape[1]
	codes := make([]int32, len(v.Codes))
	for i, code := range v.Codes {
		if code < 0 || int(code) >= m.codes {
			return fmt.Errorf("code is %d, want 0 to %d", code, m.codes-1)
		}
		codebook := i / frames
		frame := i % frames
		codes[frame*m.codebooks+codebook] = code
	}
	v.Codes = codes
	return nil
}

// readPyTorch reads a file of the authors. It returns the shape of the codes too.
func readPyTorch(name string) (*Voice, []int, error) {
	checkpoint, err := pytorch.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer checkpoint.Close()
	v := new(Voice)
	v.Text, _ = checkpoint.Value("ref_text").(string)
	v.RMS, _ = checkpoint.Value("ref_rms").(float64)
	if version := checkpoint.Value("format_version"); version != any(int64(1)) {
		return nil, nil, fmt.Errorf("format_version is %v, want 1", version)
	}
	for _, t := range checkpoint.Tensors() {
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

// toCode returns a number as a code, and -1 if no code can have it.
func toCode(x int64) int32 {
	if x < 0 || x > math.MaxInt32 {
		return -1
	}
	return int32(x)
}

// readVoice reads a file of WriteVoice. It returns the shape of the codes too.
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
	codes, err := t.Int64s()
	if err != nil {
		return nil, nil, err
	}
	metadata := set.Metadata()
	v := &Voice{Text: metadata["text"]}
	if rms := metadata["rms"]; rms != "" {
		v.RMS, err = strconv.ParseFloat(rms, 64)
		if err != nil || !(v.RMS >= 0 && v.RMS < 1e6) {
			return nil, nil, fmt.Errorf("rms is %s, want a number from 0", param.Quote(rms))
		}
	}
	for _, x := range codes {
		v.Codes = append(v.Codes, toCode(x))
	}
	return v, t.Shape, nil
}

// WriteVoice writes a voice as safetensors: codes [codebooks, frames], and text and rms as
// metadata.
func (m *Model) WriteVoice(name string, v *Voice) error {
	frames := v.Frames(m.codebooks)
	data := make([]byte, 8*len(v.Codes))
	for i, code := range v.Codes {
		frame := i / m.codebooks
		codebook := i % m.codebooks
		binary.LittleEndian.PutUint64(data[8*(codebook*frames+frame):], uint64(code))
	}
	metadata := map[string]string{"text": v.Text}
	if v.RMS > 0 {
		metadata["rms"] = param.Format(v.RMS)
	}
	return weights.WriteFile(name, []weights.Tensor{{
		Name:  "codes",
		DType: weights.I64,
		Shape: []int{m.codebooks, frames},
		Data:  data,
	}}, metadata)
}
