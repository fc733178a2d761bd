package constrain_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/constrain"
	"unmask/exact"
	"unmask/generate"
	"unmask/grammar"
	"unmask/model"
	"unmask/samplers"
)

const letters = "abcd"

// language returns the language of an expression over letters, one a token, of all positions.
func language(t require.TestingT, expression string, tokens, length int) *constrain.Language {
	d, err := grammar.Regexp(expression, nil)
	require.NoError(t, err)
	v := grammar.NewVocabulary(tokens, func(id int32) (string, bool) {
		return letters[id : id+1], true
	})
	a, err := d.Tokens(v, grammar.TokenOptions{})
	require.NoError(t, err)
	return &constrain.Language{Tokens: a, EndPosition: length}
}

var expressions = []string{"(ab|c)*", "[ab]*c[ab]*", "(a|b|c)*", "((aa|b)c?)*", "a*b*c*",
	"(abc|cba|bb)*a{0,3}"}

// each calls f for all texts of a length.
func each(tokens, length int, f func(text []int32)) {
	text := make([]int32, length)
	for {
		f(text)
		i := 0
		for ; i < length; i++ {
			if text[i]++; int(text[i]) < tokens {
				break
			}
			text[i] = 0
		}
		if i == length {
			return
		}
	}
}

// accepts walks a text through the automaton.
func accepts(l *constrain.Language, text []int32) bool {
	s := l.Start
	for _, t := range text {
		if s = l.Next(s, t); s < 0 {
			return false
		}
	}
	return l.Accepts(s)
}

// A check takes memory for states, not for states times positions.
func TestCheckTakesLittleMemory(t *testing.T) {
	const length = 1000
	l := language(t, "[ab]{0,600}c[ab]{0,600}", 3, length)
	require.Greater(t, l.States(), 1000)
	known := slices.Repeat([]int32{3}, length)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, l.Check(known, 3))
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<19)) // all states: some 10 MB
	known[0], known[length-1] = 2, 2
	require.Error(t, l.Check(known, 3))
}

// What is kept between steps does not grow by steps, each of which may have a power of its own, nor
// by sequences.
func TestSumsAreBounded(t *testing.T) {
	const length, tokens = 1000, 3
	l := language(t, "[ab]{0,600}c[ab]{0,600}", tokens, length) // sums of 5 MB
	known := slices.Repeat([]int32{tokens}, length)
	for name, c := range map[string]struct{ sequences, steps int }{"steps": {1, 16},
		"sequences": {16, 1}} {
		t.Run(name, func(t *testing.T) {
			dense := &model.Dense{Logits: make([]float32, c.sequences*length*tokens), Columns: tokens}
			var list []*constrain.Sequence
			sums := new(constrain.SumCache)
			for range c.sequences {
				list = append(list, &constrain.Sequence{Language: l, Mask: tokens, Sums: sums})
			}
			m := constrain.Marginals{Filtered: dense, Raw: dense, Outcomes: tokens, Length: length,
				Sequence: func(i int) *constrain.Sequence { return list[i] }}
			before := heap()
			for step := range c.steps {
				for i, q := range list {
					q.BeginStep()
					q.BeginPass(known, []int32{0})
					d := model.Draw{Power: 1 + float64(step)/8, Uniform: []float64{0.5},
						Token: make([]int32, 1), LogP: make([]float64, 1)}
					require.NoError(t, m.Sample([]int32{int32(i * length)}, &d))
				}
			}
			require.Less(t, heap()-before, int64(40<<20)) // 16 sums are 80 MB
			runtime.KeepAlive(list)
		})
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// At a known position, other tokens are weighed by the texts with them in its place and all other
// known tokens as they are.
func TestKnownPositionsAreWeighedByEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const tokens, length = 3, 5
		expression := rapid.SampledFrom(expressions).Draw(t, "expression")
		l := language(t, expression, tokens, length)
		known := make([]int32, length)
		evidence := make([]*constrain.Evidence, length)
		for i := range known {
			known[i] = rapid.Int32Range(0, tokens).Draw(t, "token") // tokens is the mask
			e := constrain.NewEvidence(l.ClassCount)
			for v := range tokens {
				if k := l.Class[v]; k >= 0 {
					p := rapid.Float64Range(1e-3, 1).Draw(t, "p")
					e.Add(k, constrain.TopToken{Token: int32(v), Logit: float32(p), P: p})
				}
			}
			evidence[i] = e
		}
		if l.Check(known, tokens) != nil {
			return
		}
		c := constrain.NewChainWithAlternatives(l, known, tokens, evidence)
		for i := range length {
			if known[i] == tokens {
				continue
			}
			want := make([]float64, tokens)
			each(tokens, length, func(text []int32) {
				weight := 1.0
				for j, v := range text {
					switch {
					case j == i:
					case known[j] == tokens && l.Class[v] >= 0:
						weight *= evidence[j].Sum[l.Class[v]] / float64(classSize(l, l.Class[v]))
					case known[j] != v:
						return
					}
				}
				if accepts(l, text) {
					want[text[i]] += weight
				}
			})
			got := make([]float64, tokens)
			coefficients := c.Coefficients(i, nil)
			for v := range tokens {
				if k := l.Class[v]; k >= 0 {
					got[v] = coefficients[k]
				}
			}
			require.InDeltaSlice(t, normalized(want), normalized(got), 1e-12,
				"%s %v at %d", expression, known, i)
		}
	})
}

// classSize returns how many tokens a class has.
func classSize(l *constrain.Language, class int32) (n int) {
	for _, k := range l.Class {
		if k == class {
			n++
		}
	}
	return n
}

// normalized returns weights divided by their sum.
func normalized(weights []float64) []float64 {
	whole := 0.0
	for _, w := range weights {
		whole += w
	}
	out := make([]float64, len(weights))
	for i, w := range weights {
		out[i] = w / whole
	}
	return out
}

func TestMarginalsAreTheConditionalLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const tokens, length = 3, 6
		l := language(t, rapid.SampledFrom(expressions).Draw(t, "expression"), tokens, length)
		known := slices.Repeat([]int32{tokens}, length)
		p := make([][]float64, length)
		evidence := make([]*constrain.Evidence, length)
		for i := range p {
			p[i] = make([]float64, tokens)
			e := constrain.NewEvidence(l.ClassCount)
			for v := range p[i] {
				p[i][v] = rapid.Float64Range(1e-3, 1).Draw(t, "p")
				if k := l.Class[v]; k >= 0 {
					e.Add(k, constrain.TopToken{Token: int32(v), Logit: float32(p[i][v]), P: p[i][v]})
				}
			}
			evidence[i] = e
			if rapid.IntRange(0, 3).Draw(t, "known") == 0 {
				known[i] = int32(rapid.IntRange(0, tokens-1).Draw(t, "token"))
			}
		}
		// By enumeration: the law, and the most probable text.
		want := make([][tokens]float64, length)
		whole, top := 0.0, 0.0
		var best [][]int32 // several may be equal
		each(tokens, length, func(text []int32) {
			weight := 1.0
			for i, v := range text {
				if known[i] == tokens {
					weight *= p[i][v]
				} else if known[i] != v {
					return
				}
			}
			if !accepts(l, text) {
				return
			}
			whole += weight
			if weight > top*(1+1e-12) {
				top, best = weight, nil
			}
			if weight > top*(1-1e-12) {
				best = append(best, slices.Clone(text))
			}
			for i, v := range text {
				want[i][v] += weight
			}
		})
		c, err := constrain.NewChain(l, known, tokens, evidence)
		if whole == 0 {
			require.Error(t, err)
			require.Error(t, l.Check(known, tokens))
			return
		}
		require.NoError(t, err)
		require.NoError(t, l.Check(known, tokens))
		for i := range length {
			if known[i] != tokens {
				continue
			}
			q, sum := c.Coefficients(i, nil), 0.0
			for v := range tokens {
				if k := l.Class[v]; k >= 0 {
					sum += p[i][v] * q[k]
				}
			}
			for v := range tokens {
				got := 0.0
				if k := l.Class[v]; k >= 0 {
					got = p[i][v] * q[k] / sum
				}
				require.InDelta(t, want[i][v]/whole, got, 1e-12)
			}
		}
		sets := c.Best()
		require.True(t, slices.ContainsFunc(best, func(text []int32) bool {
			for i, set := range sets {
				if known[i] == tokens && !slices.Contains(l.Sets[set], l.Class[text[i]]) {
					return false
				}
			}
			return true
		}))
	})
}

// chi2 returns the statistic of counts against probabilities, and its degrees of freedom.
func chi2(counts map[string]int, p map[string]float64, n int) (x float64, degrees int) {
	rest, restP := 0, 0.0
	for k, q := range p {
		if e := q * float64(n); e >= 5 {
			d := float64(counts[k]) - e
			x += d * d / e
			degrees++
		} else {
			rest, restP = rest+counts[k], restP+q
		}
	}
	if e := restP * float64(n); e >= 5 {
		d := float64(rest) - e
		return x + d*d/e, degrees
	}
	return x, degrees - 1
}

// run returns the texts of n sequences.
func run(t *testing.T, d model.Denoiser, o generate.Options) map[string]int {
	counts := map[string]int{}
	for step, err := range generate.Run(context.Background(), d, o) {
		require.NoError(t, err)
		if step.Done {
			for _, q := range step.Sequences {
				require.True(t, accepts(o.Language, q.Tokens), q.Tokens)
				counts[fmt.Sprint(q.Tokens)]++
			}
		}
	}
	return counts
}

// law returns the law of texts of a language, given the weight of each text.
func law(l *constrain.Language, tokens, length int,
	weight func(text []int32) float64) map[string]float64 {
	p, whole := map[string]float64{}, 0.0
	each(tokens, length, func(text []int32) {
		if accepts(l, text) {
			w := weight(text)
			p[fmt.Sprint(text)] = w
			whole += w
		}
	})
	for k := range p {
		p[k] /= whole
	}
	return p
}

func requireLaw(t *testing.T, counts map[string]int, p map[string]float64, n int) {
	x, degrees := chi2(counts, p, n)
	k := float64(degrees)
	// Wilson and Hilferty's approximation of 5 standard deviations.
	z := (math.Cbrt(x/k) - (1 - 2/(9*k))) / math.Sqrt(2/(9*k))
	require.Less(t, z, 5.0, "chi2 is %.1f of %d degrees", x, degrees)
}

func TestOneStepDrawsFollowTheLaw(t *testing.T) {
	const tokens, length, n = 3, 6, 1500
	m, err := exact.Parse(fmt.Sprintf("product:length=%d,tokens=%d,sharp=1,seed=3", length, tokens))
	require.NoError(t, err)
	d := exact.NewDenoiser(m)
	blank := slices.Repeat([]int32{tokens}, length)
	logits := marginals(t, d, blank)
	for _, e := range expressions {
		l := language(t, e, tokens, length)
		p := law(l, tokens, length, func(text []int32) float64 {
			w := 1.0
			for i, v := range text {
				w *= math.Exp(float64(logits[i][v]))
			}
			return w
		})
		for _, sampler := range []string{"random", "maskgit", "halton"} {
			counts := run(t, d,
				generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: rule(t, sampler),
					Steps: 1}, Language: l}, N: n})
			requireLaw(t, counts, p, n)
		}
	}
}

// marginals returns the logits of all positions.
func marginals(t *testing.T, d model.Denoiser, tokens []int32) [][]float32 {
	m, err := d.Forward(context.Background(), &model.Batch{Size: 1, Length: len(tokens),
		Tokens: tokens})
	require.NoError(t, err)
	var rows []int32
	for i := range tokens {
		rows = append(rows, int32(i))
	}
	out := make([][]float32, len(tokens))
	require.NoError(t, m.Visit(rows, func(i int, logits []float32) {
		out[i] = slices.Clone(logits)
	}))
	return out
}

// Two stages of a step, with an exact model in between, are drawn as the law has them: first half
// of the positions from the first pass, the others given those.
func TestStagesFollowTheLaw(t *testing.T) {
	const tokens, length, n = 3, 4, 2000
	m, err := exact.Parse(fmt.Sprintf("product:length=%d,tokens=%d,sharp=1,seed=5", length, tokens))
	require.NoError(t, err)
	d := exact.NewDenoiser(m)
	logits := marginals(t, d, slices.Repeat([]int32{tokens}, length))
	l := language(t, "((aa|b)c?)*", tokens, length)
	p := law(l, tokens, length, func(text []int32) float64 {
		w := 1.0
		for i, v := range text {
			w *= math.Exp(float64(logits[i][v]))
		}
		return w
	})
	for _, steps := range []int{1, 2} { // of independent positions, steps do not change the law
		counts := run(t, d,
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: rule(t, "random"),
				Steps: steps, Cache: 1}, Language: l}, N: n})
		requireLaw(t, counts, p, n)
	}
}

func rule(t require.TestingT, text string) samplers.Sampler {
	s, err := samplers.Parse(text)
	require.NoError(t, err)
	return s
}

// One position a step, in a fixed order: each is drawn from the law of that step, whose marginals
// are the exact conditionals of a model that is no product.
func TestOnePositionAStepFollowsTheLaws(t *testing.T) {
	const tokens, length, n = 3, 4, 2000
	m, err := exact.Parse(fmt.Sprintf("markov:length=%d,tokens=%d,stay=0.6,sharp=1,seed=2", length,
		tokens))
	require.NoError(t, err)
	d := exact.NewDenoiser(m)
	l := language(t, "((aa|b)c?)*", tokens, length)
	order := []int{}
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: rule(t,
		"halton"), Steps: length},
		Language: l}}
	for step, err := range generate.Run(context.Background(), d, o) {
		require.NoError(t, err)
		for _, opened := range step.Sequences[0].Opened {
			order = append(order, opened.Position)
		}
	}
	require.Len(t, order, length)
	p := map[string]float64{}
	var open func(text []int32, k int, probability float64)
	open = func(text []int32, k int, probability float64) {
		if k == length {
			p[fmt.Sprint(text)] += probability
			return
		}
		logits := marginals(t, d, text)
		weights, whole := [tokens]float64{}, 0.0
		each(tokens, length, func(full []int32) {
			w := 1.0
			for i, v := range full {
				if text[i] == tokens {
					w *= math.Exp(float64(logits[i][v]))
				} else if text[i] != v {
					return
				}
			}
			if accepts(l, full) {
				weights[full[order[k]]] += w
				whole += w
			}
		})
		for v, w := range weights {
			if w > 0 {
				next := slices.Clone(text)
				next[order[k]] = int32(v)
				open(next, k+1, probability*w/whole)
			}
		}
	}
	open(slices.Repeat([]int32{tokens}, length), 0, 1)
	o.N = n
	requireLaw(t, run(t, d, o), p, n)
}

// newEndedTexts returns an exact model of independent positions, its logits before the first step,
// and its vocabulary: letters below the token `end`, and nothing from it on.
func newEndedTexts(t *testing.T, length, tokens int, end int32) (model.Denoiser, [][]float32,
	*grammar.Vocabulary) {
	m, err := exact.Parse(fmt.Sprintf("product:length=%d,tokens=%d,sharp=1,seed=3", length, tokens))
	require.NoError(t, err)
	d := exact.NewDenoiser(m)
	logits := marginals(t, d, slices.Repeat([]int32{int32(tokens)}, length))
	return d, logits, grammar.NewVocabulary(tokens, func(id int32) (string, bool) {
		return letters[id : id+1], id < end
	})
}

// One step under a language, with a token that pads and one that ends in the vocabulary, has the
// law of free draws of which those in the language are kept.
func TestOneStepIsFreeDrawsThatAreKept(t *testing.T) {
	const end, pad, tokens, length, n = 2, 3, 4, 5, 3000
	d, logits, v := newEndedTexts(t, length, tokens, end)
	for _, expression := range []string{"(ab|b)*", "a*b", "[ab]{0,2}", "b?"} {
		r, err := grammar.Regexp(expression, nil)
		require.NoError(t, err)
		a, err := r.Tokens(v, grammar.TokenOptions{EndTokens: []int32{end}, FillTokens: []int32{end},
			MayTruncate: true, PadTokens: []int32{pad}})
		require.NoError(t, err)
		l := &constrain.Language{Tokens: a, EndPosition: length}

		isKept := func(text []int32) bool { // as somebody reads it, without the automaton
			shown := ""
			ended := false
			for _, id := range text {
				switch {
				case id == end:
					ended = true
				case id != pad && ended:
					return false
				case id != pad:
					shown += letters[id : id+1]
				}
			}
			return r.Match(shown)
		}
		p := map[string]float64{}
		whole := 0.0
		each(tokens, length, func(text []int32) {
			require.Equal(t, isKept(text), accepts(l, text), "%s %v", expression, text)
			if !isKept(text) {
				return
			}
			weight := 1.0
			for i, id := range text {
				weight *= math.Exp(float64(logits[i][id]))
			}
			p[fmt.Sprint(text)] = weight
			whole += weight
		})
		for text := range p {
			p[text] /= whole
		}
		for _, sampler := range []string{"random", "maskgit"} {
			request := generate.Request{Language: l,
				Recipe: generate.Recipe{Sampler: rule(t, sampler), Steps: 1}}
			requireLaw(t, run(t, d, generate.Options{Request: request, N: n}), p, n)
		}
	}
}

// The same of what only avoids something: what is shown of a free draw, up to its first end, is
// kept if nothing in it matches, whether it ends or not.
func TestAvoidingIsFreeDrawsThatAreKept(t *testing.T) {
	const end, pad, tokens, length, n = 2, 3, 4, 5, 3000
	d, logits, v := newEndedTexts(t, length, tokens, end)
	for _, avoided := range []string{"zzzz", "ab", "a[ab]a"} {
		r, err := grammar.Avoid([]string{avoided}, "", "", nil)
		require.NoError(t, err)
		a, err := r.Tokens(v, grammar.TokenOptions{EndTokens: []int32{end}, PadTokens: []int32{pad},
			MayTruncate: true, AnyAfterEnd: true})
		require.NoError(t, err)
		l := &constrain.Language{Tokens: a, EndPosition: length}
		matches := regexp.MustCompile(avoided)
		isKept := func(text []int32) bool { // as somebody reads it, without the automaton
			shown := ""
			for _, id := range text {
				if id == end {
					break
				}
				if id != pad {
					shown += letters[id : id+1]
				}
			}
			return !matches.MatchString(shown)
		}
		each(tokens, length, func(text []int32) {
			require.Equal(t, isKept(text), accepts(l, text), "%s %v", avoided, text)
		})
		p := law(l, tokens, length, func(text []int32) float64 {
			w := 1.0
			for i, id := range text {
				w *= math.Exp(float64(logits[i][id]))
			}
			return w
		})
		if avoided == "zzzz" {
			require.Len(t, p, 1024) // all texts: the free law
		}
		for _, sampler := range []string{"random", "maskgit", "halton"} {
			request := generate.Request{Language: l,
				Recipe: generate.Recipe{Sampler: rule(t, sampler), Steps: 1}}
			requireLaw(t, run(t, d, generate.Options{Request: request, N: n}), p, n)
		}
	}
}

// What is kept of a language and of its sums counts each of their parts.
func TestBytesCountAllParts(t *testing.T) {
	l := language(t, "[ab]*c", 3, 4)
	base := l.Bytes()
	require.Equal(t, l.Tokens.Bytes(), base)
	d, err := grammar.Regexp("[ab]*c", nil)
	require.NoError(t, err)
	l.Text = d
	l.Choices = &constrain.Choices{Texts: []string{"abc"}, TextAt: make([]int32, 10)}
	require.Equal(t, base+d.Bytes()+l.Choices.Bytes(), l.Bytes())
	require.GreaterOrEqual(t, l.Choices.Bytes(), 4*10+len("abc"))

	// Sums of one position count the places of all states of the language.
	wide := language(t, "[ab]{0,600}c", 3, 1)
	c, err := constrain.NewChain(wide, []int32{3}, 3, nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, c.Bytes(), 4*wide.States())
}
