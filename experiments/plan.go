package experiments

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"unmask/samplers"
)

// Plan is a sweep's file, in YAML: one model, and lists whose every combination is measured.
//
//	model: demo               # as --model takes it
//	kind: text                # or image
//	judge: demo               # of text, as --judge takes it
//	inception: FILE           # of images; default the model's own VQGAN
//	reference: DIR            # of images, or an .npz; default drawn landscapes
//	samplers: [random, hybrid, "eb(u-moment)"]
//	steps: [8, 16, 32]
//	alpha: [3, 6]             # for samplers with a Gumbel temperature; default 6
//	cache: [0, 1]             # for samplers that can
//	seeds: [0, 1, 2]          # repeats; default 0
//	n: 64                     # samples of each
//	batch: 16                 # at once, a time is taken of each; default all
//	length: 128               # of text; default the model's
type Plan struct {
	Model     string    `yaml:"model"`
	Kind      string    `yaml:"kind"`
	Judge     string    `yaml:"judge"`
	Inception string    `yaml:"inception"`
	Reference string    `yaml:"reference"`
	Samplers  []string  `yaml:"samplers"`
	Steps     []int     `yaml:"steps"`
	Alpha     []float64 `yaml:"alpha"`
	Cache     []int     `yaml:"cache"`
	Seeds     []uint64  `yaml:"seeds"`
	N         int       `yaml:"n"`
	Batch     int       `yaml:"batch"`
	Length    int       `yaml:"length"`
}

// Limits of a plan.
const (
	MaxPlan   = 1 << 20 // bytes
	maxPoints = 100_000
)

// ParsePlan reads a plan. Unknown keys are refused.
func ParsePlan(data []byte) (Plan, error) {
	var p Plan
	if len(data) > MaxPlan {
		return p, fmt.Errorf("%d bytes, allowed are %d", len(data), MaxPlan)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&p); err == io.EOF {
		return p, errors.New("no plan, wanted are model, samplers, steps and n at least")
	} else if err != nil {
		return p, plain(err)
	}
	if err := d.Decode(new(any)); err != io.EOF {
		return p, errors.New("more than one document, allowed is one")
	}
	return p.check()
}

// plain puts the decoder's findings into one line.
func plain(err error) error {
	var e *yaml.TypeError
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if errors.As(err, &e) {
		text = strings.Join(e.Errors, "; ")
	}
	return errors.New(strings.ReplaceAll(text, " in type experiments.Plan", ""))
}

func (p Plan) check() (Plan, error) {
	if p.Model == "" {
		p.Model = "demo"
	}
	if p.Kind == "" {
		p.Kind = "text"
	}
	if p.Judge == "" {
		p.Judge = "demo"
	}
	if len(p.Alpha) == 0 {
		p.Alpha = []float64{samplers.DefaultAlpha}
	}
	if len(p.Cache) == 0 {
		p.Cache = []int{0}
	}
	if len(p.Seeds) == 0 {
		p.Seeds = []uint64{0}
	}
	if p.Batch == 0 {
		p.Batch = p.N
	}
	size := 1
	for _, n := range []int{len(p.Samplers), len(p.Steps), len(p.Alpha), len(p.Cache), len(p.Seeds)} {
		if size *= n; size > maxPoints {
			return p, fmt.Errorf("more than %d points", maxPoints)
		}
	}
	switch {
	case p.Kind != "text" && p.Kind != "image":
		return p, fmt.Errorf("kind is %q, allowed are text and image", p.Kind)
	case len(p.Samplers) == 0:
		return p, errors.New("samplers is empty, wanted is one or more")
	case len(p.Steps) == 0:
		return p, errors.New("steps is empty, wanted is one or more")
	case p.N < 2:
		return p, fmt.Errorf("n is %d, allowed are 2 and up", p.N)
	case p.Batch < 1:
		return p, fmt.Errorf("batch is %d, allowed are 1..%d", p.Batch, p.N)
	case p.Length < 0:
		return p, fmt.Errorf("length is %d, allowed are 1 to the model's, or 0 for that", p.Length)
	}
	p.Batch = min(p.Batch, p.N)
	for _, n := range p.Steps {
		if n < 1 {
			return p, fmt.Errorf("steps has %d, allowed are 1 and up", n)
		}
	}
	for _, a := range p.Alpha {
		if err := samplers.AlphaParam.Check(a); err != nil || a == 0 {
			return p, fmt.Errorf("alpha has %v, want %s", a, samplers.AlphaParam.Want())
		}
	}
	for _, c := range p.Cache {
		if c < 0 || c > 64 {
			return p, fmt.Errorf("cache has %d, allowed are 0..64", c)
		}
	}
	for _, name := range p.Samplers {
		if _, err := (Point{Sampler: name}).sampler(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// Points are the plan's combinations, each once: what has no Gumbel temperature is measured at
// one, and what cannot use a cache without.
func (p Plan) Points() []Point {
	var points []Point
	seen := map[Point]bool{}
	for _, name := range p.Samplers {
		alphas := p.Alpha
		if !usesAlpha(name) {
			alphas = []float64{0}
		}
		s, _ := (Point{Sampler: name}).sampler()
		u, uncached := samplers.As[samplers.Uncached](s)
		uncached = uncached && u.Uncached() != ""
		for _, alpha := range alphas {
			for _, cache := range p.Cache {
				for _, steps := range p.Steps {
					for _, seed := range p.Seeds {
						q := Point{Sampler: name, Alpha: alpha, Cache: cache, Steps: steps, Seed: seed, N: p.N, Batch: p.Batch, Length: p.Length}
						if cache > 0 && uncached || seen[q] {
							continue
						}
						seen[q] = true
						points = append(points, q)
					}
				}
			}
		}
	}
	return points
}
