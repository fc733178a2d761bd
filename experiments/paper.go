package experiments

import (
	"slices"
	"strconv"

	"unmask/param"
)

// Size says how much of the paper's experiments is measured.
type Size struct {
	Name  string
	Text  Grid
	Image Grid
}

// Grid is what is measured of one kind of model.
type Grid struct {
	Length  int // positions, 0 for the model's
	Steps   []int
	Table   []int // steps of table 2
	Alphas  []float64
	Choice  float64 // Gumbel temperature of u-moment and hybrid, which the paper leaves open
	Repeats int     // seeds, of the figures that have repeats
	N       int     // samples of each point and seed
	Batch   int
	Scenes  int // drawn landscapes to compare with, for the demo's images
}

// The sizes. Default is chosen for two cores; where the demo's text is 8 times shorter than the
// paper's, so are the steps, and each step opens as many positions.
var (
	Quick = Size{"quick",
		Grid{Length: 16, Steps: []int{2, 4}, Table: []int{2, 4}, Alphas: []float64{6}, Choice: 3,
			Repeats: 2, N: 4, Batch: 2},
		Grid{Steps: []int{1, 2}, Alphas: []float64{6}, Repeats: 2, N: 4, Batch: 4, Scenes: 8},
	}
	Default = Size{"default",
		Grid{Length: 128, Steps: []int{4, 8, 16, 32}, Table: []int{4, 8, 32}, Alphas: []float64{3, 6, 12},
			Choice: 3, Repeats: 3, N: 30, Batch: 15},
		Grid{Steps: []int{4, 8, 16, 32}, Alphas: []float64{3, 6, 12}, Repeats: 3, N: 30, Batch: 15,
			Scenes: 1000},
	}
	Full = Size{"full",
		Grid{Steps: []int{8, 16, 32, 64, 128, 256}, Table: []int{8, 32, 128}, Alphas: []float64{3, 6, 12},
			Choice: 3, Repeats: 3, N: 1024, Batch: 16},
		Grid{Steps: []int{8, 16, 32, 64}, Alphas: []float64{3, 6, 9, 12}, Repeats: 3, N: 50_000,
			Batch: 64, Scenes: 10_000},
	}
)

// ForPublished keeps a size's sample counts but measures whole sequences at the paper's steps:
// published models are not the demo's size.
func (s Size) ForPublished() Size {
	if s.Name == Default.Name {
		s.Text.Length, s.Text.Steps, s.Text.Table = 0, []int{8, 16, 32, 64}, []int{8, 32, 128}
		s.Image.Steps = Full.Image.Steps
	}
	return s
}

// Samples is the parameter of WithSamples.
var Samples = param.Param{Name: "samples", Min: Groups, Max: float64(Full.Image.N),
	Default: strconv.Itoa(Default.Image.N),
	Help:    "samples of each point and seed; a report says how many would decide a claim"}

// WithSamples returns the size with n samples a point and seed, n as Samples allows.
func (s Size) WithSamples(n int) Size {
	s.Text.N, s.Image.N = n, n
	return s
}

// temperatureSamplers draw from p^beta, the others from p.
var (
	temperatureSamplers = []string{"maskgit", "moment", "temp"}
	freeSamplers        = []string{"random", "halton"}
)

// TextPoints are those of figures 5 and 6, the right of figure 4, and table 2.
func (g Grid) TextPoints() []Point {
	var points []Point
	add := func(steps []int, repeats int, p Point) {
		p.N, p.Batch, p.Length = g.N, g.Batch, g.Length
		for _, p.Steps = range steps {
			for seed := range repeats {
				p.Seed = uint64(seed)
				if !slices.Contains(points, p) {
					points = append(points, p)
				}
			}
		}
	}
	for _, p := range g.unbiased() {
		add(g.Steps, g.Repeats, p)
	}
	for _, name := range temperatureSamplers {
		for _, alpha := range g.Alphas {
			add(g.Steps, 1, Point{Sampler: name, Alpha: alpha})
		}
	}
	for _, p := range tableSamplers {
		add(g.Table, g.Repeats, p)
	}
	for _, p := range g.proposed() {
		p.N, p.Batch, p.Length = latencyN, 1, g.Length
		for _, p.Steps = range g.Steps {
			points = append(points, p)
		}
	}
	return points
}

// latencyN is how many samples are timed one by one for figure 6.
const latencyN = 3

// proposed are the methods whose time the paper compares.
func (g Grid) proposed() []Point { return g.unbiased()[:4] }

// tableSamplers are table 2's rows; "Fixed" in 64 bit is random.
var tableSamplers = []Point{
	{Sampler: "vanilla", Bits: 32}, {Sampler: "vanilla", Bits: 64}, {Sampler: fixedName, Bits: 32},
	{Sampler: "random"},
}

// unbiased are the methods that draw from p: figure 5's right.
func (g Grid) unbiased() []Point {
	return []Point{
		{Sampler: "random"}, {Sampler: "random", Cache: 1},
		{Sampler: "hybrid", Alpha: g.Choice}, {Sampler: "hybrid", Alpha: g.Choice, Cache: 1},
		{Sampler: "halton"}, {Sampler: "u-moment", Alpha: g.Choice},
	}
}

// ImagePoints are those of figure 3 and the left of figure 4.
func (g Grid) ImagePoints() []Point {
	var points []Point
	add := func(repeats int, p Point) {
		p.N, p.Batch = g.N, g.Batch
		for _, p.Steps = range g.Steps {
			for seed := range repeats {
				p.Seed = uint64(seed)
				points = append(points, p)
			}
		}
	}
	for _, name := range freeSamplers {
		add(1, Point{Sampler: name})
	}
	for _, alpha := range g.Alphas {
		add(1, Point{Sampler: "maskgit", Alpha: alpha})
		add(1, Point{Sampler: "temp", Alpha: alpha})
		add(g.Repeats, Point{Sampler: "moment", Alpha: alpha})
		add(g.Repeats, Point{Sampler: "moment", Alpha: alpha, Cache: 1})
	}
	return points
}

// Points returns the points of a kind of model, text or image.
func (s Size) Points(kind string) []Point {
	if kind == "image" {
		return s.Image.ImagePoints()
	}
	return s.Text.TextPoints()
}
