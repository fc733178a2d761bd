package vqgan_test

import (
	"image"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/plain"
	"unmask/media/codecs/vqgan"
	"unmask/model"
	"unmask/testkit/parity"
)

// processor is shared by the tests that do not depend on the device.
var processor = cpu.New(cpu.Options{})

func TestParity(t *testing.T) {
	for _, d := range parity.Devices {
		if d.Precision != backend.F32 {
			continue
		}
		for _, pack := range []string{"mage-tiny", "mage-base"} {
			t.Run(d.Name+"/"+pack, func(t *testing.T) {
				p := parity.Open(t, pack)
				if p.Full() && d.Slow() {
					t.Skip("minutes")
				}
				m, err := vqgan.Load(p.Source, model.Options{Backend: d.New(t)})
				require.NoError(t, err)

				codes, _ := p.Ints("codes")
				want, _ := p.Floats("images")
				got := make([]float32, len(want))
				require.NoError(t, m.Decode(got, codes))
				parity.RequireClose(t, want, got, 1e-4)

				pixels, _ := p.Floats("pixels")
				wantCodes, _ := p.Ints("pixel_codes")
				gotCodes := make([]int32, len(wantCodes))
				require.NoError(t, m.Encode(gotCodes, pixels))
				require.Equal(t, wantCodes, gotCodes)
			})
		}
	}
}

// A batch is decoded like single images, Image truncates bytes, and no call depends on earlier
// ones.
func TestImages(t *testing.T) {
	p := parity.Open(t, "mage-tiny")
	m, err := vqgan.Load(p.Source, model.Options{Backend: processor})
	require.NoError(t, err)
	codes, _ := p.Ints("codes")
	got := make([]float32, 3*16*16)
	require.NoError(t, m.Decode(got, codes))

	// No call depends on earlier ones, and a batch is decoded like single images.
	reversed := append([]int32(nil), codes...)
	for i, c := range codes {
		reversed[len(codes)-1-i] = c
	}
	both := make([]float32, 2*len(got))
	require.NoError(t, m.Decode(both, append(reversed, codes...)))
	require.Equal(t, got, both[len(got):])

	img, err := m.Image(codes)
	require.NoError(t, err)
	side := m.Config().Side()
	require.Equal(t, image.Rect(0, 0, side, side), img.Bounds())
	for p := range side * side {
		for c := range 3 {
			x := min(max(got[c*side*side+p]*255, 0), 255)
			require.Equal(t, uint8(x), img.Pix[4*p+c])
		}
		require.Equal(t, uint8(255), img.Pix[4*p+3])
	}

	// An image's bytes give the codes of its colours.
	floats := make([]float32, 3*side*side)
	for p := range side * side {
		for c := range 3 {
			floats[c*side*side+p] = float32(img.Pix[4*p+c]) / 255
		}
	}
	gotCodes := make([]int32, len(codes))
	require.NoError(t, m.Encode(gotCodes, floats))
	fromImage, err := m.EncodeImage(img)
	require.NoError(t, err)
	require.Equal(t, gotCodes, fromImage)
}

func TestBadInput(t *testing.T) {
	p := parity.Open(t, "mage-tiny")
	m, err := vqgan.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	codes := make([]int32, 64)
	pixels := make([]float32, 3*16*16)
	codes[5] = 64
	require.ErrorContains(t, m.Decode(pixels, codes), "image 0: code 64 at position 5, want 0 to 63")
	codes[5] = -1
	_, err = m.Image(codes)
	require.ErrorContains(t, err, "code -1 at position 5")
	_, err = m.Image(codes[1:])
	require.ErrorContains(t, err, "63 codes, want 64")
	require.ErrorContains(t, m.Decode(pixels[1:], codes), "want 64 codes and 768 values")
	require.ErrorContains(t, m.Encode(codes, pixels[1:]), "want 768 values and 64 codes")
	_, err = m.EncodeImage(image.NewNRGBA(image.Rect(0, 0, 16, 17)))
	require.ErrorContains(t, err, "16x17 pixels, want 16x16")
	zero := float32(0)
	pixels[3] = zero / zero
	require.ErrorContains(t, m.Encode(codes, pixels), "a colour of pixel 3 is NaN")
}

func TestConfig(t *testing.T) {
	p := parity.Open(t, "mage-tiny")
	good, err := vqgan.ReadConfig(p.Source)
	require.NoError(t, err)
	require.Equal(t, 16, good.Side())
	for want, spoil := range map[string]func(*vqgan.Config){
		"vqgan.ch is 0, want 1 to 65536": func(c *vqgan.Config) { c.Ch = 0 },
		"vqgan.n_embed is -1":            func(c *vqgan.Config) { c.Codes = -1 },
		"vqgan.z_channels is 2147483648": func(c *vqgan.Config) { c.ZChannels = 1 << 31 },
		"vqgan.embed_dim is 3":           func(c *vqgan.Config) { c.EmbedDim = 3 },
		"vqgan.out_ch is 4":              func(c *vqgan.Config) { c.OutCh = 4 },
		"has 0 levels":                   func(c *vqgan.Config) { c.ChMult = nil },
		"has 9 levels":                   func(c *vqgan.Config) { c.ChMult = make([]int, 9) },
		"level 1 has 0 x 32 channels":    func(c *vqgan.Config) { c.ChMult = []int{1, 0} },
		"level 0 has 1 x 33 channels":    func(c *vqgan.Config) { c.Ch = 33 },
		"a grid of 0 codes":              func(c *vqgan.Config) { c.Grid = 0 },
		"vqgan.num_res_blocks is 0":      func(c *vqgan.Config) { c.ResBlocks = 0 },
		"misshaped":                      func(c *vqgan.Config) { c.ChMult = []int{1, 1} },
		"missing":                        func(c *vqgan.Config) { c.ResBlocks = 3 },
		"unexpected":                     func(c *vqgan.Config) { c.ResBlocks = 1 },
	} {
		c := good
		spoil(&c)
		_, err := vqgan.Build(p.Source, c, model.Options{Backend: plain.New(), Precision: backend.F32})
		require.ErrorContains(t, err, want)
	}
	_, err = vqgan.ReadConfig(&model.Source{Config: []byte(`{"grid": 4}`)})
	require.ErrorContains(t, err, "vqgan is missing")
}
