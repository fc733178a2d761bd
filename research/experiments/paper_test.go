package experiments

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// world makes up results: quality(p) is the logarithm of perplexity or the distance, entropy(p) is
// in nats; both are the same for all seeds except for noise of about 1 %.
func world(s Size, quality, entropy func(p Point) float64) []Result {
	noisy := func(v float64, p Point) Measure {
		m := Measure{Value: v}
		for g := range JackknifeGroups {
			m.LeaveOneOut = append(m.LeaveOneOut, v*(1+0.001*math.Sin(float64(g*g+p.Steps+len(p.Name())))))
		}
		return m
	}
	var out []Result
	for _, p := range s.Text.TextPoints() {
		seconds := float64(p.Steps) * float64(p.Batch) * (1 + 0.3*float64(p.Cache))
		out = append(out, Result{Kind: "text", Point: p, Seconds: []float64{seconds, 2 * seconds},
			Metrics: Metrics{"perplexity": noisy(math.Exp(quality(p)), p), "entropy": noisy(entropy(p), p),
				"contradictions": noisy(quality(p)/20, p)}})
	}
	for _, p := range s.Image.ImagePoints() {
		seconds := float64(p.Steps) * (1 + 0.3*float64(p.Cache))
		out = append(out, Result{Kind: "image", Point: p, Seconds: []float64{seconds},
			Metrics: Metrics{"frechet": noisy(math.Exp(quality(p)), p)}})
	}
	for _, law := range ExactLaws {
		for _, p := range s.Exact.ExactPoints() {
			out = append(out, Result{Kind: law.Kind, Point: p, Seconds: []float64{1}, Metrics: Metrics{
				"perplexity": noisy(math.Exp(quality(p)), p), "entropy": noisy(entropy(p), p)}})
		}
	}
	return out
}

// asInPaper returns a world in which the paper's claims hold.
func asInPaper(p Point) (quality, entropy float64) {
	steps := math.Log2(float64(p.Steps))
	quality, entropy = 5-0.4*steps, 5.3
	switch p.Sampler {
	case "maskgit", "moment", "temp":
		quality, entropy = 4.5-0.4*steps-0.3/p.Alpha, 5.3-0.5/p.Alpha-0.1
		if p.N == DefaultSize.Image.N && p.Length == 0 { // images
			quality = 4 + 0.1*steps
		}
		if p.Sampler == "temp" {
			quality += 0.05
		}
	case "halton":
		quality = 4 - 0.1*steps
	case "hybrid":
		quality -= 0.5
	case "u-moment":
		quality = 5.3 - 0.6*steps
	case "vanilla":
		if p.Bits == 32 {
			quality, entropy = quality-0.2, entropy-0.1
		}
	}
	return quality - 0.4*float64(p.Cache), entropy
}

// The rules find every claim in a world as the paper describes it, and none in its opposite.
func TestVerdicts(t *testing.T) {
	results := world(DefaultSize, func(p Point) float64 { q, _ := asInPaper(p); return q },
		func(p Point) float64 { _, h := asInPaper(p); return h })
	claims := map[string][]Verdict{}
	for _, v := range Verdicts(results, DefaultSize) {
		require.Truef(t, v.Holds, "%s: %v", v.Claim, v.Numbers)
		require.Equal(t, "holds", v.Word())
		require.NotEmpty(t, v.Rule)
		claims[v.Claim] = append(claims[v.Claim], v)
	}
	for claim, verdicts := range claims { // on the model, and on each exact law or why not
		if verdicts[0].whyNoExactLaw() != "" {
			require.Len(t, verdicts, 1, claim)
			continue
		}
		require.Len(t, verdicts, 1+len(ExactLaws), claim)
	}
	require.Len(t, claims, 19)
	require.Len(t, premises, 19)
	for claim := range claims {
		require.NotEmpty(t, premises[claim], claim)
	}
	opposite := world(DefaultSize, func(p Point) float64 {
		steps := math.Log2(float64(p.Steps))
		switch {
		case p.Sampler == "maskgit":
			return 4 - 0.2*steps
		case p.Sampler == "moment", p.Sampler == "temp":
			return 6 - 0.2*steps + 0.3*float64(p.Cache)
		case p.Sampler == "halton":
			return 6 - 0.5*steps
		case p.Sampler == "hybrid":
			return 6 - 0.2*steps + 0.3*float64(p.Cache)
		case p.Sampler == fixedName:
			return 3
		}
		return 5 - 0.2*steps + 0.3*float64(p.Cache)
	}, func(p Point) float64 {
		if p.Sampler == "maskgit" {
			return 6
		}
		return 5 - 0.1*float64(len(p.Sampler))
	})
	for _, v := range Verdicts(opposite, DefaultSize) {
		if v.Claim == "32-bit arithmetic biases Vanilla" ||
			strings.HasPrefix(v.Claim, "temperature sampling costs") {
			continue // vanilla is the same in both precisions here, which decides nothing
		}
		require.Falsef(t, v.Holds, "%s: %v", v.Claim, v.Numbers)
	}
	for _, r := range results { // without errors nothing is decided
		for name, m := range r.Metrics {
			r.Metrics[name] = Measure{Value: m.Value}
		}
	}
	for _, v := range Verdicts(results, DefaultSize) {
		require.Equal(t, "undecided", v.Word(), v.Claim)
	}
}

func TestReport(t *testing.T) {
	results := world(DefaultSize, func(p Point) float64 { q, _ := asInPaper(p); return q },
		func(p Point) float64 { _, h := asInPaper(p); return h })
	r := NewReport(results, DefaultSize)
	r.Command, r.Demo, r.Machine, r.Settings = "unmask reproduce", true, "a machine",
		Settings{"text model": "demo"}
	markdown := string(r.Markdown("figures/"))
	for _, want := range []string{"# Reproduction", "](figures/stories.svg)",
		"| stories | Hybrid contradicts itself less than Random | holds | none: the demo alone",
		"| 6 | Moment follows MaskGIT, in perplexity | holds | holds | holds |",
		"| 3 | Moment follows MaskGIT | holds | none: pictures", "## On exact laws",
		"](figures/figure5-tradeoff.svg)", "| Vanilla | 32 bit |", "a machine", "- text model: demo"} {
		require.Contains(t, markdown, want)
	}
	html, err := r.HTML()
	require.NoError(t, err)
	require.Equal(t, strings.Count(markdown, "]("),
		strings.Count(string(html), "data:image/svg&#43;xml;base64,"))
	require.NotContains(t, string(html), "http") // the page loads nothing
	verdicts, err := json.Marshal(r.Verdicts)
	require.NoError(t, err)
	for _, key := range []string{`"claim"`, `"figure"`, `"numbers"`, `"holds"`} {
		require.Contains(t, string(verdicts), key)
	}
	again := NewReport(results, DefaultSize)
	again.Command, again.Demo, again.Machine, again.Settings = r.Command, r.Demo, r.Machine, r.Settings
	require.Equal(t, markdown, string(again.Markdown("figures/")))
}

// Charts have every curve's name, even with extreme values.
func TestCharts(t *testing.T) {
	results := world(QuickSize, func(p Point) float64 { return 3 }, func(p Point) float64 { return 4 })
	results[0].Metrics["perplexity"] = Measure{Value: -1}
	results[1].Seconds = []float64{0}
	charts := Charts(results, "")
	require.Len(t, charts, 5) // text has entropy too
	for _, c := range charts {
		svg, err := c.SVG()
		require.NoError(t, err)
		d := xml.NewDecoder(bytes.NewReader(svg))
		for err == nil {
			_, err = d.Token()
		}
		require.ErrorIs(t, err, io.EOF)
		for _, k := range c.Curves {
			require.Contains(t, string(svg), k.Name)
		}
		data, err := c.PNG()
		require.NoError(t, err)
		_, err = png.Decode(bytes.NewReader(data))
		require.NoError(t, err)
	}
	lone := Chart{Name: "lone", LogX: true,
		Curves: []Curve{{Name: "a", X: []float64{2}, Y: []float64{0}, Error: []float64{0}}}}
	_, err := lone.SVG()
	require.NoError(t, err)
	lone.LogY = true
	_, err = lone.SVG()
	require.ErrorContains(t, err, "no point that its axes can show")
	for _, v := range []float64{5e-324, 1e-90, 1e-12, 1e90, 1e308} {
		lone.Curves[0].X, lone.Curves[0].Y = []float64{2, 2}, []float64{1, v}
		lone.Curves[0].Error = []float64{0, 0}
		_, err = lone.SVG()
		require.NoError(t, err, v)
		lone.Curves[0].X, lone.Curves[0].Y = []float64{v, 1}, []float64{v, v}
		if _, err = lone.SVG(); v > 1e-100 && v < 1e100 {
			require.NoError(t, err, v)
		}
	}
	_, err = (&Chart{Name: "none"}).PNG()
	require.ErrorContains(t, err, "nothing to draw")
}

// In one chart no two curves look the same without colour.
func TestReadableInGrey(t *testing.T) {
	three := func(p Point) float64 { return 3 }
	four := func(p Point) float64 { return 4 }
	results := world(DefaultSize, three, four)
	for _, c := range append(Figures(results, DefaultSize), Charts(results, "")[0]) {
		seen := map[string]string{}
		for i, k := range c.Curves {
			line, glyph := c.curveStyle(i)
			look := fmt.Sprintf("%#v %v", glyph.Shape, line.Dashes)
			require.Emptyf(t, seen[look], "%s: %s looks like it", c.Name, k.Name)
			seen[look] = k.Name
		}
	}
}

func TestWithSamples(t *testing.T) {
	more := DefaultSize.WithSamples(120)
	points := append(more.Text.TextPoints(), more.Image.ImagePoints()...)
	require.Len(t, points, len(DefaultSize.Text.TextPoints())+len(DefaultSize.Image.ImagePoints()))
	for _, p := range points {
		require.Contains(t, []int{120, latencyN}, p.N)
	}
}
