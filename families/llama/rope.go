package llama

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// Rope says how rotary frequencies are scaled, as transformers' modeling_rope_utils.py reads it
// from config.json. The zero value scales nothing.
type Rope struct {
	// Type is "", linear, llama3 or yarn.
	Type string

	// Factor is by how much the context was stretched.
	Factor float64

	// Length is the number of positions before the scaling: original_max_position_embeddings.
	Length int

	// Attention is yarn's factor on cosines and sines.
	Attention float64

	// BetaFast and BetaSlow are the turns within Length at the ends of yarn's ramp.
	BetaFast, BetaSlow float64

	// ExactRamp says that the ends of yarn's ramp are not rounded to whole pairs.
	ExactRamp bool

	// LowFreq and HighFreq are llama3's low_freq_factor and high_freq_factor.
	LowFreq, HighFreq float64

	// QueryBeta is the slope of queryScale; 0: queries are not scaled.
	QueryBeta float64
}

// ropeTypes are the scalings that Rope has, beside default.
var ropeTypes = []string{"linear", "llama3", "yarn"}

// ropeKeys are those of an object of rotary keys that some type of scaling has, beside
// rope_theta and partial_rotary_factor.
var ropeKeys = strings.Fields(`rope_type type factor original_max_position_embeddings
	max_position_embeddings attention_factor beta_fast beta_slow mscale mscale_all_dim truncate
	low_freq_factor high_freq_factor llama_4_scaling_beta short_factor long_factor finetuned`)

// ropeType returns the type of scaling that such an object names, "" for none.
func ropeType(s *model.Values) string { return cmp.Or(s.Text("rope_type"), s.Text("type")) }

// readRope reads the rope_scaling that liftRopeKeys left. length is max_position_embeddings, types
// are the scalings that the family has.
func (f *file) readRope(length int, types ...string) Rope {
	object := f.Object("rope_scaling")
	r := Rope{Type: ropeType(object)}
	if r.Type == "" {
		return Rope{}
	}
	if !slices.Contains(types, r.Type) {
		f.Fail("rope_type is %q, want default or %s: this network computes no other", r.Type,
			strings.Join(types, ", "))
		return Rope{}
	}
	const key = "original_max_position_embeddings"
	r.Length = f.BoundedInt(key, object.BoundedInt(key, length, 1, maxLength), 1, maxLength)
	r.Factor = object.PositiveNumber("factor", 0)
	switch r.Type {
	case "llama3":
		r.LowFreq = object.PositiveNumber("low_freq_factor", 1)
		r.HighFreq = object.PositiveNumber("high_freq_factor", 4)
		if f.Err == nil && r.HighFreq <= r.LowFreq {
			object.Fail("high_freq_factor is %v, want more than low_freq_factor, %v", r.HighFreq,
				r.LowFreq)
		}
	case "yarn":
		r.readYaRN(object)
	}
	return r
}

// readYaRN reads the keys of YaRN (Peng et al. 2023, "YaRN: efficient context window extension of
// large language models").
func (r *Rope) readYaRN(f *model.Values) {
	r.BetaFast = f.PositiveNumber("beta_fast", 32)
	r.BetaSlow = f.PositiveNumber("beta_slow", 1)
	r.ExactRamp = !f.Bool("truncate", true)

	// attentionFactor is the paper's 1/sqrt(t), with its slope of 0.1 times mscale.
	attentionFactor := func(mscale float64) float64 {
		if r.Factor <= 1 {
			return 1
		}
		return 0.1*mscale*math.Log(r.Factor) + 1
	}
	r.Attention = attentionFactor(1)
	var mscale, mscaleAllDim float64
	f.Read("mscale", &mscale, "a number")
	f.Read("mscale_all_dim", &mscaleAllDim, "a number")
	if mscale != 0 && mscaleAllDim != 0 {
		r.Attention = attentionFactor(mscale) / attentionFactor(mscaleAllDim)
	}
	if f.Has("attention_factor") {
		r.Attention = f.PositiveNumber("attention_factor", 0)
	}
	if f.Has("llama_4_scaling_beta") {
		r.QueryBeta = f.PositiveNumber("llama_4_scaling_beta", 0)
	}
}

// rotaryFrequencies returns the angle per position of each pair of numbers, float32 as the
// published models compute them, and the factor on cosines and sines.
func (c *Config) rotaryFrequencies() (freq []float32, scale float32) {
	half := c.Rotary / 2
	for j := range half {
		power := float32(math.Pow(c.Theta, float64(float32(2*j)/float32(2*half))))
		freq = append(freq, c.Rope.scaledFrequency(power, j, c))
	}
	if c.Rope.Type == "yarn" {
		return freq, float32(c.Rope.Attention)
	}
	return freq, 1
}

// scaledFrequency returns 1/power, scaled; power is Theta^(2j/dims) for pair j.
func (r *Rope) scaledFrequency(power float32, j int, c *Config) float32 {
	plain := 1 / power
	factor := float32(r.Factor)
	switch r.Type {
	case "linear":
		return plain / factor
	case "llama3":
		return r.llama3Frequency(plain)
	case "yarn":
		keep := 1 - r.yarnRamp(j, c)
		return 1/(factor*power)*(1-keep) + plain*keep
	}
	return plain
}

// yarnRamp returns how much of the division by Factor pair j takes: 0 if it turns more than
// BetaFast times within Length, 1 if less than BetaSlow times, and in between for those between.
func (r *Rope) yarnRamp(j int, c *Config) float32 {
	dims := float64(c.Rotary)
	pairOf := func(turns float64) float64 {
		return dims * math.Log(float64(r.Length)/(turns*2*math.Pi)) / (2 * math.Log(c.Theta))
	}
	low := pairOf(r.BetaFast)
	high := pairOf(r.BetaSlow)
	if !r.ExactRamp {
		low = math.Floor(low)
		high = math.Ceil(high)
	}
	low = max(low, 0)
	high = min(high, dims-1)
	if low == high {
		high += 0.001 // as transformers does, against a division by 0
	}
	position := (float32(j) - float32(low)) / float32(high-low)
	return min(max(position, 0), 1)
}

// llama3Frequency divides low frequencies by Factor, keeps high ones, and mixes those between
// (Llama 3.1, transformers' _compute_llama3_parameters).
func (r *Rope) llama3Frequency(plain float32) float32 {
	length := float32(r.Length)
	wave := float32(2*math.Pi) / plain
	switch {
	case wave > length/float32(r.LowFreq):
		return plain / float32(r.Factor)
	case wave < length/float32(r.HighFreq):
		return plain
	}
	smooth := (length/wave - float32(r.LowFreq)) / float32(r.HighFreq-r.LowFreq)
	return (1-smooth)*(plain/float32(r.Factor)) + smooth*plain
}

// queryScale returns what rotated queries at a position are multiplied by, 1 below Length
// (Ministral 3, llama_4_scaling_beta).
func (r *Rope) queryScale(pos int) float32 {
	if r.QueryBeta == 0 || pos < r.Length {
		return 1
	}
	return 1 + float32(r.QueryBeta)*float32(math.Log(float64(1+pos/r.Length)))
}

// newRotary returns cosines and sines for positions 0..length-1.
func (c *Config) newRotary(b backend.Backend, length int) *backend.Rotary {
	freq, scale := c.rotaryFrequencies()
	return nn.NewRotary(b, freq, scale, length)
}
