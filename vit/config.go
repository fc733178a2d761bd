package vit

import (
	"fmt"
	"maps"
	"strings"

	"unmask/model"
	"unmask/weights"
)

// Config is the network's sizes.
type Config struct {
	// The encoder has Depth blocks of width Hidden and Heads heads, the decoder DecDepth blocks of
	// width DecHidden and DecHeads heads.
	Hidden, Depth, Heads          int
	DecHidden, DecDepth, DecHeads int

	Grid     int // the image is Grid x Grid codes
	Codebook int // codes; each is an outcome
	Vocab    int // codes, classes and the mask token, which is last

	// ClassNames are the names of the classes that it was trained with. The published MAGE has none.
	ClassNames []string
}

// Presets are the published sizes (Li et al., "MAGE", CVPR 2023): mage-vitb-1600.pth and
// mage-vitl-1600.pth.
var Presets = map[string]Config{
	"base": {
		Hidden:    768,
		Depth:     12,
		Heads:     12,
		DecHidden: 768,
		DecDepth:  8,
		DecHeads:  16,
		Grid:      16,
		Codebook:  1024,
		Vocab:     2025,
	},
	"large": {
		Hidden:    1024,
		Depth:     24,
		Heads:     16,
		DecHidden: 1024,
		DecDepth:  8,
		DecHeads:  16,
		Grid:      16,
		Codebook:  1024,
		Vocab:     2025,
	},
}

// authorsRuns are the runs of gen_img_uncond.py of MAGE's repository: fid is that of its README,
// for the published FID, and program that of the program's own defaults. Without a preset the run
// is the one that Hayakawa et al. 2025 find best.
var authorsRuns = map[string]string{
	"fid":     "maskgit(alpha=6) schedule=mage steps=20",
	"program": "maskgit(alpha=4.5) schedule=mage steps=12",
}

// presets returns the authors' runs, for the published model: it has no names of classes, and a
// model that was trained with some has no run of theirs.
func (c Config) presets() map[string]string {
	if len(c.ClassNames) > 0 {
		return nil
	}
	return maps.Clone(authorsRuns)
}

const (
	wordName     = "token_emb.word_embeddings.weight"
	positionName = "token_emb.position_embeddings.weight"

	// extraTokens counts the tokens after the codes: 1000 classes and the mask token.
	extraTokens = 1001

	maxSize = 1 << 20 // largest dimension in config.json
)

// readConfig reads config.json as written by `unmask convert`; MAGE itself publishes none. Names of
// the first classes are not in MAGE's files.
func readConfig(src *model.Source, set *weights.Set) (Config, error) {
	f := src.ConfigValues()
	size := func(key string) int { return f.BoundedInt(key, 0, 1, maxSize) }
	c := Config{
		Hidden:    size("embed_dim"),
		Depth:     size("depth"),
		Heads:     size("num_heads"),
		DecHidden: size("decoder_embed_dim"),
		DecDepth:  size("decoder_depth"),
		DecHeads:  size("decoder_num_heads"),
		Grid:      size("grid"),
		Codebook:  size("codebook_size"),
	}
	c.Vocab = c.Codebook + extraTokens
	f.Read("class_names", &c.ClassNames, "a list of names")
	known := strings.Join(append(f.Seen, "vqgan"), " ")
	if f.Err != nil {
		return c, f.Err
	}
	if err := src.CheckKeys(model.Settings{KnownKeys: known}); err != nil {
		return c, err
	}
	// The token for no class is among those of the classes.
	if n := len(c.ClassNames); n > noClassOffset {
		return c, fmt.Errorf("config.json: class_names has %d names, want 0 to %d", n, noClassOffset)
	}
	for _, h := range []struct {
		name         string
		heads, width int
	}{{"num_heads", c.Heads, c.Hidden}, {"decoder_num_heads", c.DecHeads, c.DecHidden}} {
		if h.width%h.heads != 0 {
			return c, fmt.Errorf("config.json: %s is %d, want the divisors of the width %d", h.name, h.heads,
				h.width)
		}
	}
	if names := len(set.Names()); c.Depth+c.DecDepth > names {
		return c, fmt.Errorf("config.json: depth %d and decoder_depth %d, but there are %d tensors",
			c.Depth, c.DecDepth, names)
	}
	return c, c.checkTensors(set)
}

// checkTensors compares the sizes with the tensors that show them, so that a wrong config.json
// gives a one-line error and no allocation beyond the file's size.
func (c Config) checkTensors(set *weights.Set) error {
	for _, w := range []struct {
		name       string
		rows, cols int
	}{{wordName, c.Vocab, c.Hidden}, {positionName, c.Grid*c.Grid + 1, c.Hidden},
		{"decoder_embed.weight", c.DecHidden, c.Hidden}} {
		t, ok := set.Get(w.name)
		if ok && (len(t.Shape) != 2 || t.Shape[0] != w.rows || t.Shape[1] != w.cols) {
			return fmt.Errorf("tensor %q has shape %v, config.json wants [%d %d]", w.name, t.Shape, w.rows,
				w.cols)
		}
	}
	return nil
}
