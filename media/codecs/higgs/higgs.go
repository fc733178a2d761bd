// Package higgs is the decoder of the Higgs Audio v2 tokenizer (Boson AI 2025), which OmniVoice
// speaks with: codes of several codebooks, a frame of them for each 40 ms, to sound. Its
// convolutions are those of DAC (Kumar et al. 2023, "High-fidelity audio compression with improved
// RVQGAN").
//
// Sizes are read from the tensors; config.json has the ratios and the sampling rate.
package higgs

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/model"
	"unmask/nn"
	"unmask/param"
	"unmask/weights"
)

// quantizer is one codebook and the matrix that widens its codes.
type quantizer struct {
	Embed weights.Param `weight:"codebook.embed"` // [codes, width]
	Out   nn.Linear     `weight:"project_out"`    // [wide, width]

	table *tensor.Dense // [codes, width]
}

// conv is a convolution along time.
type conv struct {
	Weight weights.Param `weight:"weight"` // [out, in, taps]; of a transposed one [in, out, taps]
	Bias   weights.Param `weight:"bias"`   // [out]

	w       backend.Matrix // [out, taps*in]
	b       *tensor.Dense  // [out]
	in, out int            // channels
	taps    int
}

// snake is the activation before a convolution, see backend.SnakeActivation.
type snake struct {
	Alpha weights.Param `weight:"alpha"` // [1, channels, 1]

	alpha *tensor.Dense // [2, channels]
}

// unit is a residual unit: a dilated convolution and one of single rows.
type unit struct {
	Snake1 snake `weight:"snake1"`
	Wide   conv  `weight:"conv1"` // 7 taps
	Snake2 snake `weight:"snake2"`
	Narrow conv  `weight:"conv2"` // 1 tap
}

// block makes the sound `ratio` times as long, of half the channels.
type block struct {
	Snake snake `weight:"snake1"`
	Up    conv  `weight:"conv_t1"` // transposed, 2*ratio taps
	Unit1 unit  `weight:"res_unit1"`
	Unit2 unit  `weight:"res_unit2"`
	Unit3 unit  `weight:"res_unit3"`

	ratio int
	reach int // rows of its input on each side on which what follows a row depends
}

// Codec decodes codes to sound, in working memory that does not grow with the length of the sound.
// Calls from several goroutines wait for each other.
type Codec struct {
	Quantizers []quantizer `weight:"quantizer.quantizers"`
	Narrow     nn.Linear   `weight:"fc2"`                    // [channels, wide]
	In         conv        `weight:"acoustic_decoder.conv1"` // 7 taps
	Blocks     []block     `weight:"acoustic_decoder.block"`
	Snake      snake       `weight:"acoustic_decoder.snake1"`
	Out        conv        `weight:"acoustic_decoder.conv2"` // 7 taps, to 1 channel

	rate  int // samples of a second
	frame int // samples of a frame
	b     backend.SnakeActivation

	window int // frames decoded at a time, beside their margins
	margin int // frames on each side on which a sample depends

	mu sync.Mutex // of w
	w  workspace
}

// workspace is the memory of one window.
type workspace struct {
	frames int           // frames that there is room for
	code   *tensor.Dense // [frames, width]: one codebook's latents
	sum    *tensor.Dense // [frames, wide]: the sum over codebooks
	latent *tensor.Dense // [frames+1, channels], the last row is zero
	padded *tensor.Dense // [frames+6, channels]

	x *tensor.Dense // [1, values]: the sound, rows of channels
	h *tensor.Dense // [1, values]: a convolution's input
	y *tensor.Dense // [1, values]: a convolution's output

	indexes []int32 // rows for one call of a kernel
	sound   []float32
}

// defaultWindow is the window of a Codec in frames: 4 seconds, in buffers of about 15 MB.
const defaultWindow = 100

// unused are tensors that only encoding sound reads, or training.
var unused = []string{"acoustic_encoder.*", "semantic_model.*", "encoder_semantic.*",
	"decoder_semantic.*", "fc.*", "fc1.*", "quantizer.quantizers.*.project_in.*",
	"quantizer.quantizers.*.codebook.embed_avg", "quantizer.quantizers.*.codebook.cluster_size",
	"quantizer.quantizers.*.codebook.inited"}

// Open loads the codec in a folder of a generator that makes codes 0..codes-1 of so many codebooks.
// It computes in float32 at any precision, because float16 overflows, and on the CPU where the
// device has no Snake.
func Open(src *model.Source, folder string, codebooks, codes int, o model.Options) (_ *Codec,
	err error) {
	defer backend.Recover(&err)
	sub, err := src.OpenSub(folder, "config.json and the weights of the sound codec")
	if err != nil {
		return nil, err
	}
	defer sub.Set.Close()
	c, err := Load(sub, o)
	if err == nil && (c.Codebooks() != codebooks || c.Codes() != codes) {
		err = fmt.Errorf("%s: the sound codec has %d codebooks of %d codes, want %d of %d as the "+
			"generator", sub.Name, c.Codebooks(), c.Codes(), codebooks, codes)
	}
	return c, err
}

// Load loads the codec of a source.
func Load(src *model.Source, o model.Options) (*Codec, error) {
	c, err := newCodec(src)
	if err == nil {
		err = weights.Bind(c, src.Set, weights.BindOptions{Ignore: unused})
	}
	if err == nil {
		err = c.packWeights(o)
	}
	if err == nil {
		err = src.Set.ReleaseAll()
	}
	return c, param.AtPlace(src.Name, err)
}

// Codebooks returns the number of codebooks.
func (c *Codec) Codebooks() int { return len(c.Quantizers) }

// Codes returns the number of codes of each codebook.
func (c *Codec) Codes() int { return c.Quantizers[0].Embed.Shape[0] }

// FrameSamples returns the number of samples of a frame.
func (c *Codec) FrameSamples() int { return c.frame }

// SampleRate returns the number of samples of a second.
func (c *Codec) SampleRate() int { return c.rate }

// packWeights packs the bound weights.
func (c *Codec) packWeights(o model.Options) error {
	var ok bool
	if c.b, ok = o.Backend.(backend.SnakeActivation); !ok {
		c.b = cpu.New(cpu.Options{})
	}
	l := &nn.Loader{Backend: c.b}
	for i := range c.Quantizers {
		q := &c.Quantizers[i]
		q.table = l.Table(&q.Embed)
		q.Out.Load(l)
	}
	l.Load(&c.Narrow, &c.In)
	for i := range c.Blocks {
		b := &c.Blocks[i]
		b.Snake.Load(l)
		b.Up.loadTransposed(l, b.ratio)
		for _, u := range b.residualUnits() {
			l.Load(&u.Snake1, &u.Wide, &u.Snake2, &u.Narrow)
		}
	}
	l.Load(&c.Snake, &c.Out)
	return l.Err()
}

// residualUnits returns the block's units in the order of computation.
func (b *block) residualUnits() [3]*unit { return [3]*unit{&b.Unit1, &b.Unit2, &b.Unit3} }

// Load writes the table to the device.
func (s *snake) Load(l *nn.Loader) {
	alpha := l.Floats(&s.Alpha)
	channels := len(alpha)
	table := alpha // alpha, then 1/alpha
	for _, a := range alpha {
		table = append(table, float32(1/(float64(a)+1e-9)))
	}
	s.alpha = l.Backend.New(2, channels)
	l.Backend.Write(s.alpha, 0, table)
}

// Load packs the layer.
func (v *conv) Load(l *nn.Loader) {
	v.out = v.Weight.Shape[0]
	v.in = v.Weight.Shape[1]
	v.taps = v.Weight.Shape[2]
	w := l.Floats(&v.Weight)
	v.w = l.Backend.Pack(v.out, v.taps*v.in, l.Precision, func(i int, dst []float32) {
		nn.MoveTapsFirst(dst, w[i*v.in*v.taps:], v.in, v.taps)
	})
	v.b = l.Vector(l.Floats(&v.Bias))
}

// loadTransposed packs a transposed convolution of stride r and 2r taps as one of two taps with r
// outputs for each channel: row q of the result, rows q*r to q*r+r-1 of the longer sound, is made
// of rows q-1 and q of the input.
func (v *conv) loadTransposed(l *nn.Loader, r int) {
	in := v.Weight.Shape[0]
	out := v.Weight.Shape[1]
	w := l.Floats(&v.Weight)
	bias := l.Floats(&v.Bias)
	v.in = in
	v.out = r * out
	v.taps = 2
	v.w = l.Backend.Pack(r*out, 2*in, l.Precision, func(i int, dst []float32) {
		for j := range in {
			taps := w[(j*out+i%out)*2*r:][:2*r]
			dst[j] = taps[r+i/out]
			dst[in+j] = taps[i/out]
		}
	})
	v.b = l.Vector(slices.Repeat(bias, r))
}

// Decode computes the sound of codes [frames, books] and calls emit with its parts, one after the
// other, about 1 if loud. A part is valid until the next. An error of emit ends it.
func (c *Codec) Decode(ctx context.Context, codes []int32, emit func(sound []float32) error) (
	err error) {
	defer backend.Recover(&err)
	codebooks := c.Codebooks()
	if len(codes) == 0 || len(codes)%codebooks != 0 {
		return fmt.Errorf("codes are %d, want some frames of %d", len(codes), codebooks)
	}
	for i, x := range codes {
		if x < 0 || int(x) >= c.Codes() {
			return fmt.Errorf("code is %d at frame %d of codebook %d, want 0 to %d", x, i/codebooks,
				i%codebooks,
				c.Codes()-1)
		}
	}
	frames := len(codes) / codebooks
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resize(min(frames, c.window+2*c.margin))
	for start := 0; start < frames; start += c.window {
		if err := ctx.Err(); err != nil {
			return err
		}
		end := min(start+c.window, frames)

		// The window is drawn with its margins, because its first and last samples depend on them.
		marginStart := max(0, start-c.margin)
		marginEnd := min(frames, end+c.margin)
		first := c.drawSound(codes[marginStart*codebooks:marginEnd*codebooks], start-marginStart,
			marginEnd-end)
		sound := c.w.sound[:first+(end-start)*c.frame]
		c.b.Read(sound, c.w.y, 0)
		sound = sound[first:]
		for i, x := range sound {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return fmt.Errorf("sample %d is %v, want a finite one", start*c.frame+i, x)
			}
		}
		if err := emit(sound); err != nil {
			return err
		}
	}
	return nil
}
