package vqgan

import (
	"fmt"
	"strings"

	"unmask/model"
	"unmask/nn/picture"
)

// Config is the network's sizes, as config.json has them under "vqgan". The published network
// has 128 channels, multipliers 1 1 2 2 4, 2 residual blocks a level, 256 latent channels
// and 1024 codes, and makes 256x256 pixels of a 16x16 grid.
type Config struct {
	Ch int `json:"ch"` // channels of the first level
	// channels of each level, as multiples of Ch; the image halves between levels
	ChMult    []int `json:"ch_mult"`
	ResBlocks int   `json:"num_res_blocks"` // in each level
	ZChannels int   `json:"z_channels"`     // latent channels
	// equal to ZChannels: this network has no projection between
	EmbedDim int `json:"embed_dim"`
	Codes    int `json:"n_embed"` // rows of the codebook
	OutCh    int `json:"out_ch"`  // 3, red, green and blue
	Grid     int `json:"-"`       // codes along a side
}

// settings are the keys of its object, and those of MAGE's config/vqgan.yaml that its program does
// not read: there is no attention.
var settings = model.Settings{
	Path: "vqgan",
	KnownKeys: strings.Join(model.JSONKeys(Config{}), " ") +
		" resolution attn_resolutions",
	RequiredValues: map[string]any{"double_z": false,
		"in_channels": 3.0},
}

const (
	maxLevels = 8
	maxSize   = 1 << 16
	maxPixels = 1 << 13 // along a side
)

// ReadConfig reads the sizes from a model's config.json.
func ReadConfig(src *model.Source) (Config, error) {
	var f struct {
		Grid  int     `json:"grid"`
		VQGAN *Config `json:"vqgan"`
	}
	if err := model.DecodeConfig(src, &f); err != nil {
		return Config{}, err
	}
	if f.VQGAN == nil {
		return Config{}, fmt.Errorf("config.json: vqgan is missing: the model makes codes, not images")
	}
	c := *f.VQGAN
	c.Grid = f.Grid
	if err := src.CheckKeys(settings); err != nil {
		return c, err
	}
	return c, c.checkValues()
}

// Side returns the width and height of an image in pixels.
func (c Config) Side() int { return c.Grid << (len(c.ChMult) - 1) }

// levelChannels returns the channels of a level.
func (c Config) levelChannels(level int) int { return c.Ch * c.ChMult[level] }

// checkValues returns an error that names the first value of config.json that no network has.
func (c Config) checkValues() error {
	for _, s := range []struct {
		name  string
		value int
	}{
		{"ch", c.Ch}, {"num_res_blocks", c.ResBlocks}, {"z_channels", c.ZChannels}, {"n_embed", c.Codes},
	} {
		if s.value < 1 || s.value > maxSize {
			return fmt.Errorf("config.json: vqgan.%s is %d, want 1 to %d", s.name, s.value, maxSize)
		}
	}
	if c.EmbedDim != c.ZChannels {
		return fmt.Errorf("config.json: vqgan.embed_dim is %d, want z_channels, %d", c.EmbedDim,
			c.ZChannels)
	}
	if c.OutCh != 3 {
		return fmt.Errorf("config.json: vqgan.out_ch is %d, want 3", c.OutCh)
	}
	if n := len(c.ChMult); n < 1 || n > maxLevels {
		return fmt.Errorf("config.json: vqgan.ch_mult has %d levels, want 1 to %d", n, maxLevels)
	}
	for i, m := range c.ChMult {
		if m < 1 || m > maxSize || m*c.Ch > maxSize || m*c.Ch%picture.Groups != 0 {
			return fmt.Errorf("config.json: vqgan level %d has %d x %d channels, want multiples of %d up "+
				"to %d", i, m, c.Ch, picture.Groups, maxSize)
		}
	}
	if c.Grid < 1 || c.Grid > maxPixels || c.Side() > maxPixels {
		return fmt.Errorf("config.json: a grid of %d codes and %d levels, want up to %d pixels", c.Grid,
			len(c.ChMult), maxPixels)
	}
	return nil
}
