package paint_test

import (
	"image"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights"
	"unmask/weights/pytorch"
)

// packCounter counts the matrices packed on it.
type packCounter struct {
	backend.Backend
	n atomic.Int64
}

func (c *packCounter) Pack(out, in int, p backend.Precision, row backend.RowFunc) backend.Matrix {
	c.n.Add(1)
	return c.Backend.Pack(out, in, p, row)
}

// codecs are the image tokenizers with an encoder, and a tensor of each encoder.
var codecs = []struct {
	name   string
	open   func(t *testing.T) *parity.Pack
	tensor string
}{
	{"titok", func(t *testing.T) *parity.Pack { return parity.Open(t, "titok-tokenizer-tiny") },
		"encoder.conv_out.weight"},
	{"tatitok", func(t *testing.T) *parity.Pack { return parity.Open(t, "tatitok-tiny") },
		"encoder.transformer.1.attn.in_proj_weight"},
	{"llamagen", func(t *testing.T) *parity.Pack {
		return parity.OpenConverted(t, "llamagen-tiny", "vq_ds16_c2i.pt", pytorch.Options{Grid: 6})
	}, "encoder.conv_out.weight"},
	{"amused", func(t *testing.T) *parity.Pack {
		return parity.OpenFolder(t, "amused-256-tiny", "vqvae")
	}, "quant_conv.weight"},
	{"mage", func(t *testing.T) *parity.Pack { return parity.Open(t, "mage-tiny") },
		"vqgan.encoder.conv_out.weight"},
}

// Each half of a codec is packed when it is first used: once, whoever asks at the same time, and
// later uses pack nothing more. A model that draws loads the decoder before.
func TestHalvesAreLoadedWhenTheyAreUsed(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			b := &packCounter{Backend: cpu.New(cpu.Options{Threads: 1})}
			codec, err := model.LoadCodec(c.open(t).Source, model.Options{Backend: b})
			require.NoError(t, err)
			require.Zero(t, b.n.Load())

			e := codec.(model.LateCodec)
			loaded := int64(0)
			for _, half := range []func() error{e.LoadEncoder, e.LoadDecoder} {
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() { require.NoError(t, half()) })
				}
				all.Wait()
				require.Greater(t, b.n.Load(), loaded)
				loaded = b.n.Load()
			}

			picture := image.NewNRGBA(image.Rect(0, 0, 0, 0))
			picture.Rect.Max = image.Pt(codec.Size())
			picture.Stride = 4 * picture.Rect.Max.X
			picture.Pix = make([]byte, picture.Stride*picture.Rect.Max.Y)
			codes, err := e.EncodeImage(picture)
			require.NoError(t, err)
			again, err := e.EncodeImage(picture)
			require.NoError(t, err)
			require.Equal(t, codes, again)
			if c.name != "llamagen" { // its attention packs keys and values
				require.Equal(t, loaded, b.n.Load())
			}
		})
	}
}

// Names and shapes of an encoder's tensors are checked when the codec is loaded; values when the
// encoder is, which inspecting does too.
func TestEncodersErrors(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			o := model.Options{Backend: cpu.New(cpu.Options{Threads: 1})}
			load := func(change func(*weights.Tensor) *weights.Tensor) (model.Codec, *model.Source,
				error) {
				src := *c.open(t).Source
				src.Set = changed(t, src.Set, c.tensor, change)
				codec, err := model.LoadCodec(&src, o)
				return codec, &src, err
			}
			_, _, err := load(func(*weights.Tensor) *weights.Tensor { return nil })
			require.ErrorContains(t, err, strings.TrimPrefix(c.tensor, "vqgan."))
			_, _, err = load(func(v *weights.Tensor) *weights.Tensor {
				v.Shape = append([]int{1}, v.Shape...)
				return v
			})
			require.ErrorContains(t, err, strings.TrimPrefix(c.tensor, "vqgan."))

			codec, src, err := load(func(v *weights.Tensor) *weights.Tensor {
				for i := range v.Data {
					v.Data[i] = 0xff // NaN in all floats
				}
				return v
			})
			require.NoError(t, err)
			width, height := codec.Size()
			positions := 1
			for _, n := range codec.Shape() {
				positions *= n
			}
			err = codec.(model.PixelEncoder).Encode(make([]int32, positions),
				make([]float32, 3*width*height))
			require.ErrorContains(t, err, "is NaN")
			require.ErrorContains(t, err, src.Name+": ")
			require.ErrorContains(t, err, c.tensor)
			require.NotContains(t, err.Error(), "\n")
			_, err = model.InspectCodec(src, o)
			require.ErrorContains(t, err, "is NaN")

			colours := make([]float32, 3*width*height)
			for i := range colours {
				colours[i] = float32(math.NaN())
			}
			if _, reads := codec.(model.PromptCodec); !reads || c.name == "titok" {
				require.NoError(t, codec.Decode(colours, make([]int32, positions)))
				require.False(t, math.IsNaN(float64(colours[0])))
			}
		})
	}
}

// An encoder's file may be removed before the encoder is first used, because it stays open. After
// the file is overwritten, encoding is an error: the halves would come from different weights.
func TestEncodersFileMayGoButNotChange(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(file string) error
		want string
	}{
		"removed": {do: os.Remove},
		"rewritten": {func(file string) error { return os.Chtimes(file, time.Time{}, time.Unix(1, 0)) },
			"file changed while it was read"},
		"cut off": {func(file string) error { return os.Truncate(file, 5000) }, "file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pack := os.DirFS(parity.OpenCases(t, "amused-256-tiny").Dir("."))
			require.NoError(t, os.CopyFS(dir, pack))
			src, err := model.Open(dir)
			require.NoError(t, err)
			defer src.Set.Close()
			codec, err := model.LoadCodec(src, model.Options{Backend: cpu.New(cpu.Options{Threads: 1})})
			require.NoError(t, err)
			files, err := filepath.Glob(filepath.Join(dir, "vqvae", "*.safetensors"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.NoError(t, codec.(model.LateCodec).LoadDecoder())
			require.NoError(t, c.do(files[0]))
			width, height := codec.Size()
			picture := image.NewNRGBA(image.Rect(0, 0, width, height))
			for range 2 { // the error stays
				_, err = codec.(model.Encoder).EncodeImage(picture)
				if c.want == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, c.want)
				require.ErrorContains(t, err, files[0])
				require.NotContains(t, err.Error(), "\n")
			}
			_, err = codec.Image(make([]int32, codec.Shape()[0]*codec.Shape()[1]))
			require.NoError(t, err)
		})
	}
}

// A model that draws finds bad weights of its decoder before it draws; a codec by itself, which may
// be there to encode, when it decodes.
func TestDecodersErrors(t *testing.T) {
	src := *parity.Open(t, "mage-tiny").Source
	const bad = "vqgan.decoder.conv_out.weight"
	src.Set = changed(t, src.Set, bad, func(v *weights.Tensor) *weights.Tensor {
		for i := range v.Data {
			v.Data[i] = 0xff
		}
		return v
	})
	o := model.Options{Backend: cpu.New(cpu.Options{Threads: 1})}
	m, err := model.Load(&src, o)
	require.NoError(t, err)
	_, err = m.Codec()
	require.ErrorContains(t, err, bad)
	codec, err := model.LoadCodec(&src, o)
	require.NoError(t, err)
	width, height := codec.Size()
	codes, err := codec.(model.Encoder).EncodeImage(image.NewNRGBA(image.Rect(0, 0, width, height)))
	require.NoError(t, err)
	_, err = codec.Image(codes)
	require.ErrorContains(t, err, bad)
	require.ErrorContains(t, err, src.Name+": ")
	_, err = model.InspectCodec(&src, o)
	require.ErrorContains(t, err, bad)
}

// changed returns a copy of a set in which one tensor is changed, or removed where change returns
// nil.
func changed(t *testing.T, set *weights.Set, name string,
	change func(*weights.Tensor) *weights.Tensor) *weights.Set {
	var list []*weights.Tensor
	found := false
	for _, n := range set.Names() {
		v, _ := set.Get(n)
		one := &weights.Tensor{Name: n, DType: v.DType, Shape: slices.Clone(v.Shape),
			Data: slices.Clone(v.Data)}
		if n == name {
			found = true
			one = change(one)
		}
		if one != nil {
			list = append(list, one)
		}
	}
	require.True(t, found, name)
	out, err := weights.NewSet(list, nil)
	require.NoError(t, err)
	return out
}
