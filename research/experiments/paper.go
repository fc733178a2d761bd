package experiments

import (
	"slices"
	"strconv"

	"unmask/param"
)

// Size says how many of the paper's measurements are made.
type Size struct {
	Name  string
	Text  Grid
	Image Grid
	Exact Grid // of each of ExactLaws
}

// Grid lists the measurements for one kind of model.
type Grid struct {
	// Length is the number of positions, 0 for the model's.
	Length int

	Steps []int

	// TableSteps are the steps of table 2.
	TableSteps []int

	Alphas []float64

	// MomentAlpha is the Gumbel temperature of u-moment and hybrid, which the paper does not give.
	MomentAlpha float64

	// Repeats is the number of seeds of the figures that have repeats.
	Repeats int

	// N is the number of samples of each point and seed, made in batches of Batch.
	N     int
	Batch int

	// Scenes is the number of drawn landscapes in the reference of the demo's images.
	Scenes int
}

// The sizes. Default is for two cores; the demo's texts are 8 times shorter than the paper's, and
// so are its steps, so each step opens as many positions as in the paper.
var (
	QuickSize = Size{
		"quick",
		Grid{
			Length:      16,
			Steps:       []int{2, 4},
			TableSteps:  []int{2, 4},
			Alphas:      []float64{6},
			MomentAlpha: 3,
			Repeats:     2,
			N:           4,
			Batch:       2,
		},
		Grid{Steps: []int{1, 2}, Alphas: []float64{6}, Repeats: 2, N: 4, Batch: 4, Scenes: 8},
		Grid{
			Length:      128,
			Steps:       []int{2, 4},
			TableSteps:  []int{2, 4},
			Alphas:      []float64{6},
			MomentAlpha: 3,
			Repeats:     2,
			N:           4,
			Batch:       4,
		},
	}
	DefaultSize = Size{
		"default",
		Grid{
			Length:      128,
			Steps:       []int{4, 8, 16, 32},
			TableSteps:  []int{4, 8, 32},
			Alphas:      []float64{3, 6, 12},
			MomentAlpha: 3,
			Repeats:     3,
			N:           30,
			Batch:       15,
		},
		Grid{
			Steps:   []int{4, 8, 16, 32},
			Alphas:  []float64{3, 6, 12},
			Repeats: 3,
			N:       30,
			Batch:   15,
			Scenes:  1000,
		},
		exactGrid,
	}
	FullSize = Size{
		"full",
		Grid{
			Steps:       []int{8, 16, 32, 64, 128, 256},
			TableSteps:  []int{8, 32, 128},
			Alphas:      []float64{3, 6, 12},
			MomentAlpha: 3,
			Repeats:     3,
			N:           1024,
			Batch:       16,
		},
		Grid{
			Steps:   []int{8, 16, 32, 64},
			Alphas:  []float64{3, 6, 9, 12},
			Repeats: 3,
			N:       50_000,
			Batch:   64,
			Scenes:  10_000,
		},
		exactGrid,
	}
)

// exactGrid is that of exact laws, whose passes cost so little that a point has exactFactor times
// the samples of a small network's.
var exactGrid = Grid{
	Length:      128,
	Steps:       []int{4, 8, 16, 32},
	TableSteps:  []int{4, 8, 32},
	Alphas:      []float64{3, 6, 12},
	MomentAlpha: 3,
	Repeats:     3,
	N:           exactFactor * 30,
	Batch:       50,
}

const exactFactor = 5

// ForPublished returns the size with its sample counts, but whole sequences and the paper's steps,
// for published models.
func (s Size) ForPublished() Size {
	if s.Name == DefaultSize.Name {
		s.Text.Length = 0
		s.Text.Steps = []int{8, 16, 32, 64}
		s.Text.TableSteps = []int{8, 32, 128}
		s.Image.Steps = FullSize.Image.Steps
	}
	return s
}

// SamplesParam is the parameter of WithSamples.
var SamplesParam = param.Param{
	Name:    "samples",
	Min:     JackknifeGroups,
	Max:     float64(FullSize.Image.N),
	Default: strconv.Itoa(DefaultSize.Image.N),
	Help:    "samples of each point and seed; the report says how many would decide a claim",
}

// WithSamples returns the size with n samples per point and seed; see Samples for the range.
func (s Size) WithSamples(n int) Size {
	s.Text.N = n
	s.Image.N = n
	s.Exact.N = exactFactor * n
	return s
}

// temperatureSamplers draw from p^beta; unbiased ones draw from p.
var (
	temperatureSamplers = []string{"maskgit", "moment", "temp"}
	freeSamplers        = []string{"random", "halton"}
)

// methodsWithAlphas returns samplers with each α.
func (g Grid) methodsWithAlphas(samplers ...string) (methods []Point) {
	for _, name := range samplers {
		for _, alpha := range g.Alphas {
			methods = append(methods, Point{Sampler: name, Alpha: alpha})
		}
	}
	return methods
}

// addPoints adds a method at numbers of steps and with seeds, each point once: figures share
// points, and a shared one is measured once.
func (g Grid) addPoints(points []Point, steps []int, repeats int, p Point) []Point {
	p.N = g.N
	p.Batch = g.Batch
	p.Length = g.Length
	for _, p.Steps = range steps {
		for seed := range repeats {
			p.Seed = uint64(seed)
			if !slices.Contains(points, p) {
				points = append(points, p)
			}
		}
	}
	return points
}

// TextPoints returns the points of figures 5 and 6, of the right of figure 4, and of table 2.
func (g Grid) TextPoints() (points []Point) {
	for _, p := range g.unbiasedMethods() {
		points = g.addPoints(points, g.Steps, g.Repeats, p)
	}
	for _, p := range g.methodsWithAlphas(temperatureSamplers...) {
		points = g.addPoints(points, g.Steps, 1, p)
	}
	for _, p := range tableSamplers {
		points = g.addPoints(points, g.TableSteps, g.Repeats, p)
	}
	g.N = latencyN
	g.Batch = 1
	for _, p := range g.timedMethods() {
		points = g.addPoints(points, g.Steps, 1, p)
	}
	return points
}

// latencyN is the number of samples timed one at a time for figure 6.
const latencyN = 3

// timedMethods returns the methods whose time the paper compares: random and hybrid, without and
// with the cache.
func (g Grid) timedMethods() []Point { return g.unbiasedMethods()[:4] }

// tableSamplers are the rows of table 2; "Fixed" in 64 bits is random.
var tableSamplers = []Point{
	{Sampler: "vanilla", Bits: 32}, {Sampler: "vanilla", Bits: 64}, {Sampler: fixedName, Bits: 32},
	{Sampler: "random"},
}

// unbiasedMethods returns the methods that draw from p, those of the right of figure 5.
func (g Grid) unbiasedMethods() []Point {
	return []Point{
		{Sampler: "random"},
		{Sampler: "random", Cache: 1},
		{Sampler: "hybrid", Alpha: g.MomentAlpha},
		{Sampler: "hybrid", Alpha: g.MomentAlpha, Cache: 1},
		{Sampler: "halton"},
		{Sampler: "u-moment", Alpha: g.MomentAlpha},
	}
}

// ImagePoints returns the points of figure 3 and of the left of figure 4.
func (g Grid) ImagePoints() (points []Point) {
	for _, name := range freeSamplers {
		points = g.addPoints(points, g.Steps, 1, Point{Sampler: name})
	}
	for _, alpha := range g.Alphas {
		points = g.addPoints(points, g.Steps, 1, Point{Sampler: "maskgit", Alpha: alpha})
		points = g.addPoints(points, g.Steps, 1, Point{Sampler: "temp", Alpha: alpha})
		points = g.addPoints(points, g.Steps, g.Repeats, Point{Sampler: "moment", Alpha: alpha})
		points = g.addPoints(points, g.Steps, g.Repeats, Point{Sampler: "moment", Alpha: alpha, Cache: 1})
	}
	return points
}

// Points returns the points of a kind of model: text, image or that of an exact law.
func (s Size) Points(kind string) []Point {
	if _, ok := exactLaw(kind); ok {
		return s.Exact.ExactPoints()
	}
	if kind == "image" {
		return s.Image.ImagePoints()
	}
	return s.Text.TextPoints()
}

// gridOf returns the grid of a kind of model.
func (s Size) gridOf(kind string) Grid {
	if _, ok := exactLaw(kind); ok {
		return s.Exact
	}
	if kind == "image" {
		return s.Image
	}
	return s.Text
}
