package generate_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
	"unmask/testkit/parity"
)

// decoding is a run of a published rule, from golden.json of the packs decoders-*.
type decoding struct {
	Rule                                string
	Theta, Margin                       float64
	Alpha, Gamma, Beta                  float64
	Decay, Clip                         float64
	K, New, Block, Steps                int
	Wide, Narrow, Penalty               float64
	Keep, Reuse, Ratio, Variant, Verify string
	Window, Tail                        int
	Sigma, Scale                        float64
	Add, Activate                       float64
	Delay, Refresh, Drafts              int
	Cost, Least                         float64
	Start, Longest, Check, Grow, Unit   int
	High, Low, Enough, Full             float64
	HighP                               float64 `json:"high_p"`
	Growth, Density                     string
	Adjusts                             int
	End                                 int32
	EndBias                             []float64 `json:"end_bias"`
}

// recipe returns the run's recipe, "" for a rule that this program does not have.
func (d *decoding) recipe() string {
	in := func(inside string) string {
		return fmt.Sprintf("semi-ar(greedy(%s), block=%d)", inside, d.Block)
	}
	switch d.Rule {
	case "by_threshold":
		return in(fmt.Sprintf("threshold(theta=%v)", d.Theta))
	case "by_entropy":
		return in(fmt.Sprintf("entropy-threshold(entropy=%v)", d.Theta))
	case "by_frechet":
		return in(fmt.Sprintf("frechet(margin=%v)", d.Margin))
	case "credit":
		return fmt.Sprintf("semi-ar(credit(theta=%v, weight=%v, power=%v, decay=%v), block=%d)", d.Theta,
			d.Alpha, d.Gamma, d.Beta, d.Block)
	case "by_pc":
		return fmt.Sprintf("greedy(pc(lambda=%v, clip=%v)) steps=%d", d.Decay, d.Clip, d.New/d.K)
	case "static":
		return in("confidence") + fmt.Sprintf(" steps=%d", d.New)
	case "multi_block", "multi_block_cached":
		text := fmt.Sprintf("greedy(multi-block(entropy=%v, add=%v, activate=%v, block=%d, by=%s, "+
			"delay=%d))", d.Theta, d.Add, d.Activate, d.Block, d.Variant, max(d.Delay, 1))
		if d.Rule == "multi_block_cached" {
			text += fmt.Sprintf(" reuse=finished refresh=%d", d.Refresh)
		}
		return text
	case "s2d2":
		if d.Verify == "ratio" { // coins
			return ""
		}
		return fmt.Sprintf("s2d2(theta=%v, cost=%v) reuse=blocks block-size=%d", d.Theta,
			d.Cost+d.Least, d.Block)
	case "freedave":
		return fmt.Sprintf("semi-ar(draft(drafts=%d), block=%d)", d.Drafts, d.Block)
	case "wino":
		return fmt.Sprintf("wino(wide=%v, narrow=%v, block=%d)", d.Wide, d.Narrow, d.Block)
	case "penalty_generate":
		return fmt.Sprintf("greedy(entropy) schedule=dream steps=%d end-penalty=%v", d.Steps, d.Penalty)
	case "daedal":
		return fmt.Sprintf("daedal(start=%d, block=%d, high=%v, low=%v, grow=%d, enough=%v, full=%v, "+
			"check=%d)", d.Start, d.Block, d.High, d.Low, d.Grow, d.Enough, d.Full, d.Check)
	case "rho_eos":
		return fmt.Sprintf("rho-eos(start=%d, block=%d, sure=%v, low=%v, high=%v, unit=%d, check=%d, "+
			"growth=%s, adjusts=%d, density=%s, cut=any)", d.Start, d.Block, d.HighP, d.Low, d.High, d.Unit,
			d.Check, d.Growth, d.Adjusts, d.Density)
	case "pruned_generate":
		inside := fmt.Sprintf("threshold(theta=%v)", d.Theta)
		if d.Alpha > 0 {
			inside = fmt.Sprintf("threshold(theta=%v, relax=%v)", d.Theta, d.Alpha)
		}
		text := in(inside) + fmt.Sprintf(" reuse=%s window=%d", d.Reuse, d.Window)
		switch d.Keep {
		case "window":
			return text
		case "thinned":
			return text + fmt.Sprintf(" window-sigma=%v", d.Sigma)
		}
	}
	return ""
}

// Every rule opens and closes the reference's positions in the same passes, with the same tokens.
func TestDecoders(t *testing.T) {
	for _, pack := range []string{"decoders-1", "decoders-2", "decoders-3"} {
		p := parity.Open(t, pack)
		l, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
		require.NoError(t, err)
		data, err := fs.ReadFile(p.Files, "golden.json")
		require.NoError(t, err)
		var all map[string]*decoding
		require.NoError(t, json.Unmarshal(data, &all))
		for name, d := range all {
			if text := d.recipe(); text != "" {
				t.Run(pack+"/"+name, func(t *testing.T) {
					compareDecoding(t, p, l.Denoiser, name, text, d)
				})
			}
		}
	}
}

func compareDecoding(t *testing.T, p *parity.Pack, m model.Denoiser, name, text string,
	d *decoding) {
	golden := func(what string) []int32 {
		v, _ := p.Ints("golden_" + name + what)
		return v
	}
	prompt, want, counts := golden("_prompt"), golden(""), golden("_passes")
	recipe, err := generate.ParseRecipe(text)
	require.NoError(t, err)
	if d.Rule == "by_pc" {
		recipe.Sampler = samplers.Greedy{Inside: samplers.ChooseThenSample{Order: samplers.PC{
			Lambda: d.Decay, Clip: d.Clip, Frequency: frequency(p)}}}
	}
	o := generate.Options{Request: generate.Request{Recipe: recipe,
		Known: slices.Repeat([]int32{m.Spec().Mask}, len(prompt)+max(d.New, d.Longest))}}
	copy(o.Known, prompt)
	if d.End != 0 {
		o.EndTokens = []int32{d.End}
	}
	if d.EndBias != nil {
		o.Adjust = func(position int, logits []float32) {
			logits[d.End] += float32(d.EndBias[0] + d.EndBias[1]*float64(position))
		}
	}
	var opened, closed, lengths []int32
	var last generate.Sequence
	drafted, checks := 0, 0
	length, shown := len(o.Known), slices.Clone(o.Known)
	for step, err := range generate.Run(t.Context(), m, o) {
		require.NoError(t, err)
		last = *step.Sequences[0].Sequence
		shown = generate.ApplyResizes(shown, last.Resized, m.Spec().Mask)
		for _, at := range last.Closed {
			shown[at] = m.Spec().Mask
		}
		for _, one := range last.Opened {
			require.Equal(t, m.Spec().Mask, shown[one.Position])
			shown[one.Position] = one.Token
		}
		for _, one := range last.Replaced {
			shown[one.Position] = one.Token
		}
		require.Equal(t, last.Tokens, shown)
		from := generate.ApplyResizes(parity.Count(length), last.Resized, -1) // positions before the step
		if last.Work.Drafted > drafted && d.Rule == "s2d2" {
			checks++
		}
		drafted = last.Work.Drafted
		pass := int32(step.N + checks - 1)
		if d.Rule == "penalty_generate" { // steps that open nothing need no pass
			pass = int32(last.Work.Full - 1)
		}
		for _, one := range last.Opened {
			if at := from[one.Position]; at >= 0 && (d.Rule != "multi_block" || one.LogP == one.LogP) {
				opened = append(opened, pass, at)
			}
		}
		for _, at := range last.Closed {
			closed = append(closed, int32(step.N-1), int32(at))
		}
		if length = len(last.Tokens); len(last.Resized) > 0 || lengths != nil {
			lengths = append(lengths, int32(length))
		}
	}
	ends := slices.Contains(want[len(prompt):], d.End) && d.Rule == "penalty_generate"
	if ends || name == "suffix_end" { // ours ends with the end token, and fills the rest
		n := len(prompt) + slices.Index(want[len(prompt):], d.End) + 1
		require.Equal(t, want[:n], last.Tokens[:n])
		require.LessOrEqual(t, last.N, int(counts[0]), "passes")
		return
	}
	require.Equal(t, want, last.Tokens)
	if d.Rule != "penalty_generate" {
		require.EqualValues(t, counts[0], last.N+checks, "passes")
	}
	if !strings.HasPrefix(name, "rho") { // a cut removes what opened in the same pass
		require.Equal(t, golden("_opened"), opened, "pass and position of what opened")
	}
	if lengths != nil { // what became masks is in its closed, and no rows are saved
		require.Equal(t, golden("_lengths")[1:], lengths[:len(lengths)-1], "lengths")
		return
	}
	require.Equal(t, golden("_closed"), append([]int32{}, closed...), "and of what was masked again")
	if d.Rule == "s2d2" { // ours keeps finished blocks, and checks no more than the run
		return
	}
	if d.Rule == "freedave" { // ours leaves out drafts that decide nothing
		require.Less(t, last.Work.Full*len(want), int(counts[1]), "rows")
		require.Less(t, last.N, d.New, "passes")
	} else if d.Rule != "by_pc" {
		rows := last.Work.Full*len(last.Tokens) + last.Work.Partial
		require.EqualValues(t, counts[1], rows, "rows")
	}
}

// frequency returns the shares of tokens in a corpus.
func frequency(p *parity.Pack) (shares []float64) {
	list, _ := p.Floats("frequency")
	for _, f := range list {
		shares = append(shares, float64(f))
	}
	return shares
}

// Drafts keep the text: of one position a pass, or within a block of blocks of one position.
func TestDraftsKeepTheText(t *testing.T) {
	for pack, cases := range map[string][][2]string{
		"decoders-1": {{"draft", "greedy steps=19"}, {"draft(greedy(margin), drafts=7)",
			"greedy(margin) steps=19"}, {"semi-ar(draft, block=6)", "semi-ar(greedy, block=6) steps=24"},
			{"s2d2(cost=1e-9) reuse=blocks block-size=32", "greedy reuse=blocks block-size=1"}},
		"sdar-tiny": {{"s2d2(cost=1e-9) reuse=blocks block-size=32", "greedy reuse=blocks block-size=1"}},
	} {
		l, err := model.Load(parity.Open(t, pack).Source, model.Options{Backend: cpu.New(cpu.Options{})})
		require.NoError(t, err)
		for _, c := range cases {
			fewer := 0
			for i := range 6 {
				o := generate.Options{Request: generate.Request{Known: slices.Repeat([]int32{l.Spec().Mask},
					24)}}
				for p := range 4 {
					o.Known[p] = int32(3*i + 7*p)
				}
				o.Known[4+5*i/2] = 9 // something known behind masks
				var texts [2][]int32
				var passes [2]int
				for j, text := range c {
					o.Recipe, err = generate.ParseRecipe(text)
					require.NoError(t, err)
					for q, err := range generate.Samples(t.Context(), l.Denoiser, o) {
						require.NoError(t, err)
						texts[j], passes[j] = slices.Clone(q.Tokens), q.N
					}
				}
				require.Equal(t, texts[1], texts[0], "%s, prompt %d", c[0], i)
				fewer += passes[1] - passes[0]
			}
			require.Positive(t, fewer, c[0])
		}
	}
}

// What the rules cannot be combined with is refused by name, in one line.
func TestDecoderRefusals(t *testing.T) {
	load := func(pack string) model.Denoiser {
		l, err := model.Load(parity.Open(t, pack).Source, model.Options{Backend: cpu.New(cpu.Options{})})
		require.NoError(t, err)
		return l.Denoiser
	}
	whole, blocks := load("decoders-1"), load("sdar-tiny")
	known := []int32{1, 63, 63, 5, 63, 63}
	for _, c := range []struct {
		name, recipe, want string
		d                  model.Denoiser
		o                  generate.Options
	}{
		{"window without blocks", "confidence window=4", "no window with this sampler: it has no blocks, " +
			"such as those of semi-ar", whole, generate.Options{}},
		{"window of blocks", "semi-ar window=4", "no window with this model: its passes compute all that " +
			"a position sees", blocks, generate.Options{}},
		{"window with dkv", "semi-ar window=4 reuse=dkv", "window is 4, want 0 with reuse dkv", whole,
			generate.Options{}},
		{"sigma without a window", "semi-ar window-sigma=4", "window-sigma is 4, want 0 without a window",
			whole, generate.Options{}},
		{"window that is judged", "wino window=4", "no window with this sampler: it masks positions again",
			whole, generate.Options{}},
		{"judge with a cache", "wino reuse=dual", "no dual reuse with this sampler: it masks positions " +
			"again, so no key or value stays", whole, generate.Options{}},
		{"drafts with a cache", "semi-ar(draft) reuse=dual", "no dual reuse with this sampler: it drafts, " +
			"and drafts have no keys and values of their own", whole, generate.Options{}},
		{"drafts by chance", "draft(confidence)", "draft around confidence, want a sampler that takes the " +
			"most probable tokens in steps of the schedule, such as greedy", whole, generate.Options{}},
		{"finished without several blocks", "semi-ar reuse=finished", "no finished reuse with this " +
			"sampler: it does not open several blocks at once, as multi-block does", whole,
			generate.Options{}},
		{"several blocks in blocks", "multi-block reuse=blocks", "reuse is blocks, want none, dkv or " +
			"finished with multi-block", blocks, generate.Options{}},
		{"a length with a cache", "daedal reuse=dkv", "reuse is dkv, want none with daedal: the length " +
			"changes", whole, generate.Options{}},
		{"a length before a text", "daedal", "sampler is daedal, want another one: something is known " +
			"behind a mask", whole, generate.Options{Request: generate.Request{Known: known,
			EndTokens: []int32{60}}}},
		{"a penalty of no end", "confidence end-penalty=3", "end-penalty is 3, want 0 where no token ends " +
			"the text", whole, generate.Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			c.o.Recipe, err = generate.ParseRecipe(c.recipe)
			if err == nil {
				_, err = c.o.Check(c.d)
			}
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}
