package llama

import (
	"encoding/json"

	"unmask/nn"
)

// Scaled are the rotary tables that a config.json describes.
type Scaled struct {
	Freq  []float32
	Scale float32
	c     Config
}

// ScaledOf reads the keys of rotary embeddings in a config.json.
func ScaledOf(config []byte) (Scaled, error) {
	f := &file{kind: &kind{}}
	if err := json.Unmarshal(config, &f.Keys); err != nil {
		return Scaled{}, err
	}
	f.liftRopeKeys()
	c := Config{Rotary: f.BoundedInt("head_dim", 0, 1, maxSize),
		Theta:  f.PositiveNumber("rope_theta", 0),
		Length: f.BoundedInt("max_position_embeddings", 0, 1, maxLength)}
	f.readScaling(&c)
	freq, scale := c.rotaryFrequencies()
	return Scaled{freq, scale, c}, f.Err
}

// Turn returns the cosines and sines at a position, [pairs].
func (s Scaled) Turn(pos int) (cos, sin []float32) {
	cos, sin = make([]float32, len(s.Freq)), make([]float32, len(s.Freq))
	nn.FillCosSin(cos, sin, s.Freq, s.Scale, pos)
	return cos, sin
}

// Query returns the factor on queries at a position.
func (s Scaled) Query(pos int) float32 { return s.c.Rope.queryScale(pos) }
