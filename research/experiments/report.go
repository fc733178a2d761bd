package experiments

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"
)

// Report is the result of a reproduction.
type Report struct {
	// Command is the command line that makes it.
	Command string

	Settings Settings

	// Machine names that of the measurements; "" if it is not known.
	Machine string

	// Seconds is the time of all generation.
	Seconds float64

	Size Size

	// Demo reports whether the models are the embedded ones.
	Demo bool

	Results  []Result
	Verdicts []Verdict
	Figures  []Chart
}

// NewReport judges and draws results.
func NewReport(results []Result, s Size) Report {
	r := Report{
		Size:     s,
		Results:  results,
		Verdicts: Verdicts(results, s),
		Figures:  Figures(results, s),
	}
	for _, result := range results {
		for _, seconds := range result.Seconds {
			r.Seconds += seconds
		}
	}
	return r
}

// Word returns the verdict in one word.
func (v Verdict) Word() string {
	switch {
	case v.Holds:
		return "holds"
	case v.Decided:
		return "does not hold"
	}
	return "undecided"
}

// moreSamplesNote says how many samples would decide an undecided claim; it is empty for others.
func (v Verdict) moreSamplesNote() string {
	if v.SamplesFactor == 0 {
		return ""
	}
	digits := 1
	if v.SamplesFactor >= 10 {
		digits = 0
	}
	return fmt.Sprintf(": about %.*f times the samples would decide", digits, v.SamplesFactor)
}

// String returns the number with its name, and one standard error if it is known.
func (n Number) String() string {
	if n.Error == 0 {
		return fmt.Sprintf("%s %.3g", n.Name, n.Value)
	}
	return fmt.Sprintf("%s %.3g ± %.2g", n.Name, n.Value, n.Error)
}

// section is a part of the report: a heading, paragraphs, charts and a table.
type section struct {
	Heading string
	Text    []string
	Charts  []Chart
	Table   *reportTable // nil for none
}

// reportTable is a table as cells, which Markdown and HTML write in their own ways.
type reportTable struct {
	Head []string
	Rows [][]string
}

// sections returns the report's contents, for Markdown and HTML alike.
func (r *Report) sections() []section {
	out := []section{
		{
			Heading: "Reproduction of the paper's experiments",
			Text: []string{
				"Hayakawa, Takida, Imaizumi, Wakaki and Mitsufuji, “Demystifying MaskGIT Sampler and Beyond: " +
					"Adaptive Order Selection in Masked Diffusion” (2025), repeated by `" + r.Command + "`.",
			},
		},
	}
	out = append(out, r.paperSection())
	out = append(out, section{
		Heading: "Verdicts",
		Text: []string{
			"± is one standard error, by a jackknife over ten parts of the samples. A claim " +
				"holds if its rule (below) is met beyond chance at 95 %, and does not hold if " +
				"the opposite is, corrected for the numbers of the claim by Holm's method; a claim " +
				"of equality holds if two one-sided tests at 5 % find its numbers within the margin " +
				"that its rule names. Otherwise this number of samples cannot decide it on this " +
				"model. The number of samples that would decide it assumes that the values stay " +
				"as they are and only the errors shrink.",
		},
		Table: r.verdictTable(),
	})
	if t := r.truthTable(); t != nil {
		out = append(out, r.exactSection(t))
	}
	for _, f := range []struct {
		heading string
		prefix  string
		text    string
	}{
		{"Figure 3: image quality against steps", "figure3", ""},
		{"Figure 4: gain against time, with and without cache", "figure4",
			"A time is the shortest of a batch over the repeats. Points with partial caching have a ring."},
		{"Figure 5: temperature and entropy; perplexity against entropy", "figure5",
			"Each curve on the right connects the numbers of steps of one sampler."},
		{"Figure 6: perplexity of temperature sampling; time in another regime", "figure6",
			"The paper's second machine is replaced by a batch of one sample, where memory and overheads " +
				"limit a step more than arithmetic does."},
		{"Stories: contradictions against steps", "stories",
			"Not in the paper: the demo's stories state facts that later sentences must " +
				"respect, so quality can be counted without a judge. The figure shows the share " +
				"of a story's opportunities to contradict itself in which it does."},
	} {
		s := section{Heading: f.heading}
		for _, c := range r.Figures {
			if strings.HasPrefix(c.Name, f.prefix) && len(c.Curves) > 0 {
				s.Charts = append(s.Charts, c)
			}
		}
		if f.text != "" {
			s.Text = []string{f.text}
		}
		if len(s.Charts) > 0 {
			out = append(out, s)
		}
	}
	if t := r.precisionTable(); t != nil {
		out = append(out, section{Heading: "Table 2: numerical precision", Table: t})
	}
	out = append(out, section{Heading: "Numbers behind the verdicts", Table: r.numberTable()})
	rules := section{Heading: "Rules and premises"}
	for _, v := range r.Verdicts {
		if v.Law != "" {
			continue // the same rule
		}
		rules.Text = append(rules.Text, fmt.Sprintf("*%s*: %s. Its premise: %s.", v.Claim, v.Rule,
			premises[v.Claim]))
	}
	return append(out, rules, r.differences())
}

// paperFigures are what the paper's figures and its table 2 show, in a line.
var paperFigures = []struct{ figure, about string }{
	{"3", "FID of MAGE on ImageNet against steps, by sampler and α"},
	{"4", "FID and generative perplexity against time, with and without partial caching"},
	{"5", "entropy of SDTT's texts against steps; perplexity against entropy"},
	{"6", "perplexity of temperature samplers against steps; time on another machine"},
	{"table 2", "perplexity and entropy with draws in 32 and in 64 bits"},
}

// paperSection returns the page for a reader of the paper: each figure beside what was found here.
func (r *Report) paperSection() section {
	s := section{
		Heading: "For a reader of the paper",
		Text: []string{
			"Its figures 3 to 6 and table 2 are drawn below under the same numbers. On published weights, " +
				"two commands repeat them: `unmask reproduce --full --model " +
				"jdeschena/sdtt@baselines_kld_step_70000 --judge openai-community/gpt2-large` for figures 4 " +
				"(right), 5, 6 and table 2, and `unmask reproduce --full --model MAGE_DIR --inception " +
				"pt_inception-2015-12-05-6726825d.pth --reference imagenet` for figures 3 and 4 (left), as " +
				"docs/published.md says.",
		},
		Table: &reportTable{Head: []string{"figure", "what the paper shows", "its claims here"}},
	}
	for _, f := range paperFigures {
		cells := r.countVerdicts(f.figure)
		if cells != "" {
			s.Table.Rows = append(s.Table.Rows, []string{f.figure, f.about, cells})
		}
	}
	return s
}

// countVerdicts says how many of a figure's claims hold, on the measured model and on exact laws.
func (r *Report) countVerdicts(figure string) string {
	var parts []string
	models := []string{""}
	for _, law := range ExactLaws {
		models = append(models, law.Kind)
	}
	for _, law := range models {
		counts := map[string]int{}
		for _, v := range r.Verdicts {
			if v.Figure == figure && v.Law == law {
				counts[v.Word()]++
			}
		}
		var words []string
		for _, word := range []struct{ one, several string }{
			{"holds", "hold"},
			{"does not hold", "do not hold"},
			{"undecided", "undecided"},
		} {
			switch n := counts[word.one]; n {
			case 0:
			case 1:
				words = append(words, "1 "+word.one)
			default:
				words = append(words, fmt.Sprintf("%d %s", n, word.several))
			}
		}
		if len(words) > 0 {
			parts = append(parts, cmp.Or(law, r.modelName())+": "+strings.Join(words, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// exactSection returns the part of the report about exact laws, with the table of how far samples
// are from them.
func (r *Report) exactSection(t *reportTable) section {
	s := section{Heading: "On exact laws", Table: t}
	s.Text = append(s.Text, "A network of the demo's size errs in its marginals, and what a sampler "+
		"does to its errors is no property of the sampler. The claims about text are therefore tried "+
		"again where the marginals are the truth's own. Below, each method less samples of the law "+
		"itself, in nats a token and in nats of entropy: 0 is right, and a method whose -log p is below "+
		"0 is surer than the truth.")
	for _, law := range ExactLaws {
		s.Text = append(s.Text, fmt.Sprintf("*%s* (`%s`): %s.", law.Kind, law.Model, law.About))
	}
	if text := r.disagreements(); text != "" {
		s.Text = append(s.Text, text)
	}
	return s
}

// disagreements says where the measured model has another verdict than the exact laws, with the
// first number of each; "" if nowhere.
func (r *Report) disagreements() string {
	var parts []string
	for _, claim := range r.Verdicts {
		if claim.Law != "" || len(claim.Numbers) == 0 {
			continue
		}
		part := fmt.Sprintf("*%s*: %s, %s on the %s", claim.Claim, claim.Word(), claim.Numbers[0],
			r.modelName())
		differs := false
		for _, v := range r.Verdicts {
			if v.Law != "" && v.Claim == claim.Claim && len(v.Numbers) > 0 {
				differs = differs || v.Word() != claim.Word()
				part += fmt.Sprintf("; %s, %.3g ± %.2g on %s", v.Word(), v.Numbers[0].Value,
					v.Numbers[0].Error, v.Law)
			}
		}
		if differs {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	text := "Where the columns differ: " + strings.Join(parts, ". ") + "."
	if r.Demo {
		text += " On the demo a story's form decides how many words it has, whatever the temperature (figure " +
			"5, left), so that what depends on entropy needs more samples there or does not show."
	}
	return text
}

// verdictTable returns the verdicts in words, a row for each claim: on the measured model and on
// the exact laws.
func (r *Report) verdictTable() *reportTable {
	head := []string{"figure", "claim", r.modelName()}
	var laws []string
	for _, law := range ExactLaws {
		if slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.Law == law.Kind }) {
			laws = append(laws, law.Kind)
			head = append(head, law.Kind+", exact")
		}
	}
	g := &reportTable{Head: head}
	for _, v := range r.Verdicts {
		if v.Law != "" {
			continue
		}
		row := []string{v.Figure, v.Claim, v.Word() + v.moreSamplesNote()}
		for _, law := range laws {
			row = append(row, r.verdictOn(law, v))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// verdictOn returns the verdict on a claim on an exact law, or why there is none.
func (r *Report) verdictOn(law string, claim Verdict) string {
	for _, v := range r.Verdicts {
		if v.Law == law && v.Claim == claim.Claim {
			return v.Word() + v.moreSamplesNote()
		}
	}
	return claim.whyNoExactLaw()
}

// numberTable returns the numbers behind the verdicts, a row for each claim and model.
func (r *Report) numberTable() *reportTable {
	g := &reportTable{Head: []string{"figure", "claim", "model", "numbers"}}
	for _, v := range r.Verdicts {
		var numbers []string
		for _, n := range v.Numbers {
			numbers = append(numbers, n.String())
		}
		g.Rows = append(g.Rows, []string{v.Figure, v.Claim, cmp.Or(v.Law, r.modelName()),
			strings.Join(numbers, "; ")})
	}
	return g
}

// modelName returns what the report calls the measured model.
func (r *Report) modelName() string {
	if r.Demo {
		return "demo"
	}
	return "model"
}

// truthTable returns how far each method is from the truth on the exact laws, nil if none was
// measured: the mean of -log p of a token under the law, and the entropy of a sample's own tokens,
// each less that of samples of the law itself.
func (r *Report) truthTable() *reportTable {
	g := &reportTable{Head: []string{"law", "sampler"}}
	grid := r.Size.Exact
	for _, n := range grid.Steps {
		g.Head = append(g.Head, fmt.Sprintf("-log p, %d steps", n), fmt.Sprintf("entropy, %d steps", n))
	}
	truth := Point{Sampler: "random"} // with a step for each position
	for _, law := range ExactLaws {
		t := Table{Kind: law.Kind, Results: r.Results, N: grid.N}
		for _, m := range t.methods() {
			row := []string{law.Kind, m.Name()}
			isMeasured := true
			for _, n := range grid.Steps {
				quality := combine(logRatio, t.metric(m, n, "perplexity"),
					t.metric(truth, grid.Length, "perplexity"))
				entropy := combine(subtract, t.metric(m, n, "entropy"),
					t.metric(truth, grid.Length, "entropy"))
				isMeasured = isMeasured && !math.IsNaN(quality.Value)
				row = append(row, fmt.Sprintf("%+.3f ± %.3f", quality.Value, quality.Error()),
					fmt.Sprintf("%+.3f ± %.3f", entropy.Value, entropy.Error()))
			}
			if isMeasured {
				g.Rows = append(g.Rows, row)
			}
		}
	}
	if len(g.Rows) == 0 {
		return nil
	}
	return g
}

// precisionTable returns table 2.
func (r *Report) precisionTable() *reportTable {
	t := Table{Kind: "text", Results: r.Results, N: r.Size.Text.N}
	if len(t.methods()) == 0 {
		return nil
	}
	g := &reportTable{Head: []string{"sampler", "precision"}}
	for _, n := range r.Size.Text.TableSteps {
		g.Head = append(g.Head, fmt.Sprintf("gen. PPL, %d steps", n), fmt.Sprintf("entropy, %d steps", n))
	}
	names := []string{"Vanilla", "Vanilla", "Fixed", "Fixed (= Random)"}
	for i, m := range tableSamplers {
		row := []string{names[i], "64 bit"}
		if m.Bits == 32 {
			row[1] = "32 bit"
		}
		for _, n := range r.Size.Text.TableSteps {
			p := t.metric(m, n, "perplexity")
			e := t.metric(m, n, "entropy")
			row = append(row, fmt.Sprintf("%.2f ± %.2f", p.Value, p.Error()),
				fmt.Sprintf("%.3f ± %.3f", e.Value, e.Error()))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// countSeeds returns the most seeds of a point, and the most that the size asks for.
func (r *Report) countSeeds() (measured, planned int) {
	for _, result := range r.Results {
		measured = max(measured, int(result.Seed)+1)
	}
	return measured, max(r.Size.Text.Repeats, r.Size.Image.Repeats, r.Size.Exact.Repeats)
}

// differences lists how the run differs from the paper's experiments, and why.
func (r *Report) differences() section {
	s := section{Heading: "What differs from the paper, and why"}
	add := func(format string, args ...any) { s.Text = append(s.Text, fmt.Sprintf(format, args...)) }
	if r.Demo {
		add("The models are the embedded ones, which a laptop runs in minutes: small stories with " +
			"1024 tokens instead of SDTT on OpenWebText with 50257, a judge of the same size and data " +
			"instead of GPT-2 large, and landscapes of 64 x 64 pixels with 192 codes instead of MAGE on " +
			"ImageNet with 1024. Theorem 1's bound grows with the number of tokens, and with a small " +
			"vocabulary and weak models there is less to gain from order and cache.")
		add("Image quality is the Fréchet distance to %d drawn landscapes in features of the model's "+
			"own VQGAN encoder (mean and deviation of its channels), because no Inception weights are "+
			"embedded. It is not an FID, and there is no Inception Score. With so few images it is biased "+
			"upwards, by the same amount for all methods.", r.Size.Image.Scenes)
	}
	textTable := Table{Kind: "text", Results: r.Results}
	if len(textTable.methods()) > 0 {
		t := r.Size.Text
		length := "the model's length"
		if t.Length > 0 {
			length = fmt.Sprintf("%d tokens", t.Length)
		}
		add("Text: %d samples per point and seed, of %s, in batches of %d, at %v steps; the paper has 1024 "+
			"samples of 1024 tokens in batches of 16 at 8 to 256 steps. Methods without temperature and "+
			"table 2 have %d seeds, the others one.", t.N, length, t.Batch, t.Steps, t.Repeats)
		add("The Gumbel temperature of U-Moment and Hybrid, which the paper does not state, is %g. "+
			"The trade-off is reduced to one number with the price that temperature sampling "+
			"pays for entropy, because curves of a few noisy points cannot be compared by "+
			"eye. Where a lower temperature takes little entropy from a model's texts, the price c is "+
			"high, and hundredths of a nat of entropy decide.", t.MomentAlpha)
		add("Vanilla's 32 bit is SDTT's published arithmetic, float32 uniforms of 24 bits; Fixed in 32 " +
			"bit draws tokens by the same race.")
	}
	imageTable := Table{Kind: "image", Results: r.Results}
	if len(imageTable.methods()) > 0 {
		i := r.Size.Image
		add("Images: %d samples per point and seed, in batches of %d, at %v steps with α of %v; the paper "+
			"has 50,000 in batches of 64 at 8 to 64 steps. Moment, with and without cache, has %d seeds, "+
			"the others one.", i.N, i.Batch, i.Steps, i.Alphas, i.Repeats)
	}
	if seeds, planned := r.countSeeds(); seeds > planned {
		add("Undecided claims got further seeds, up to %d of a point where the others have %d, and were "+
			"judged again after each addition, at 95 %% each time. Of claims whose difference is truly 0, "+
			"more than 5 %% are decided by chance then: 14 %% after five looks.", seeds, planned)
	}
	machine := "the machine that measured them"
	if r.Machine != "" {
		machine = "this machine: " + r.Machine
	}
	add("Times are of %s. The paper's are of an A6000 and an H100.", machine)
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		add("%s: %s", name, r.Settings[name])
	}
	add("Generation took %.0f seconds in all.", r.Seconds)
	return s
}

// Markdown returns the report, with its figures in files under the path `figures`.
func (r *Report) Markdown(figures string) []byte {
	var b bytes.Buffer
	for i, s := range r.sections() {
		fmt.Fprintf(&b, "%s %s\n\n", strings.Repeat("#", min(i+1, 2)), s.Heading)
		if len(s.Text) > 3 {
			fmt.Fprintf(&b, "- %s\n\n", strings.Join(s.Text, "\n- "))
		} else {
			for _, p := range s.Text {
				fmt.Fprintf(&b, "%s\n\n", p)
			}
		}
		for _, c := range s.Charts {
			fmt.Fprintf(&b, "![%s](%s%s.svg)\n\n", c.Title, figures, c.Name)
		}
		if s.Table != nil {
			writeTableHead(&b, s.Table.Head)
			for _, row := range s.Table.Rows {
				writeTableRow(&b, row)
			}
			b.WriteByte('\n')
		}
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

var reportPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"svg": svgDataURL,
	"plain": func(s string) string {
		return strings.NewReplacer("`", "", "*", "").Replace(s)
	},
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reproduction</title>
<style>
body { font: 16px/1.5 Georgia, serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
h2 { margin-top: 2.5rem } img { max-width: 100% }
table { border-collapse: collapse; font-size: .85rem } td, th { border-bottom: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top }
</style></head><body>
{{range .}}<h2>{{.Heading}}</h2>
{{range .Text}}<p>{{plain .}}</p>
{{end}}{{range .Charts}}<p><img alt="{{.Title}}" src="{{svg .}}"></p>
{{end}}{{with .Table}}<table><tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table>
{{end}}{{end}}</body></html>
`))

// svgDataURL returns a chart as a data URL.
func svgDataURL(c Chart) (template.URL, error) {
	svg, err := c.SVG()
	return template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(svg)), err
}

// HTML returns the report as one page that loads nothing.
func (r *Report) HTML() ([]byte, error) {
	var b bytes.Buffer
	err := reportPage.Execute(&b, r.sections())
	return b.Bytes(), err
}
