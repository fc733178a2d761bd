package pytorch

import (
	"cmp"
	"strings"
)

// haltonFile is the config.json of Halton-MaskGIT; its authors do not publish one. Other sizes are
// read from the tensors.
type haltonFile struct {
	ModelType string `json:"model_type"`
	Heads     int    `json:"num_attention_heads"`
}

// haltonHeads are the heads of the published models by width (Halton-MaskGIT,
// Network/transformer.py and Trainer/cls_trainer.py).
var haltonHeads = map[int]int{384: 6, 512: 6, 768: 12, 1024: 16}

func haltonConfig(s *shapes, o Options) (any, error) {
	width, inner := s.dim("tok_emb.weight", 1), s.dim("transformer.layers.0.attn.wq.weight", 0)
	if s.err != nil {
		return nil, s.err
	}
	f := haltonFile{ModelType: "halton-maskgit", Heads: cmp.Or(o.Heads, haltonHeads[width])}
	return f, checkHeads("attention", inner, f.Heads)
}

// llamagenFile is the config.json of LlamaGen's image tokenizer.
type llamagenFile struct {
	ModelType string `json:"model_type"`
	Grid      int    `json:"grid"` // codes along a side of an image
}

// llamagenConfig: both published networks make 256x256 pixels, vq_ds16_c2i.pt of 16x16 codes and
// vq_ds8_c2i.pt, which has one level less, of 32x32.
func llamagenConfig(s *shapes, o Options) llamagenFile {
	grid := 16
	if s.count("encoder.conv_blocks.", ".res.0.conv1.weight") == 4 {
		grid = 32
	}
	return llamagenFile{ModelType: "llamagen-vq", Grid: cmp.Or(o.Grid, grid)}
}

// tied reports whether a tensor is a copy of another, which networks read under that one's name.
func (c *Checkpoint) tied(t *Tensor) bool {
	head, tied := strings.CutSuffix(t.Name, "head.weight")
	if !tied {
		return false
	}
	for _, other := range c.tensors {
		if other.Name == head+"tok_emb.weight" {
			return other.storage.rec == t.storage.rec && other.offset == t.offset
		}
	}
	return false
}
