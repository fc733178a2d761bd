package samplers_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"hash"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
)

var update = flag.Bool("update", false, "rewrite what rules open in testdata/openings.txt")

// drawnRun is a sequence whose measures are drawn from short lists, so that positions are often
// equal, and often at a rule's bound.
type drawnRun struct {
	draw   *rand.Rand
	tokens []int32
	opened []float64 // log p when opened
	state  any
}

const (
	drawnOutcomes = 7
	drawnSteps    = 5
)

func newDrawnRun(seed uint64, s samplers.Sampler) *drawnRun {
	const length = 30
	r := &drawnRun{draw: rand.New(rand.NewPCG(seed, 1)), tokens: make([]int32, length),
		opened: make([]float64, length)}
	for p := range r.tokens {
		r.tokens[p] = drawnOutcomes
		if p < 3 {
			r.tokens[p] = 1 // known from the start
		}
	}
	if f, ok := samplers.As[samplers.Stateful](s); ok {
		r.state = f.NewState(length)
	}
	return r
}

// oneOf draws one of a few values.
func oneOf[T any](r *drawnRun, values ...T) T { return values[r.draw.IntN(len(values))] }

func (r *drawnRun) probability() float64 {
	return oneOf(r, 0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1)
}

// view returns the sequence before a step.
func (r *drawnRun) view(step int) *samplers.View {
	length := len(r.tokens)
	v := &samplers.View{
		Tokens: slices.Clone(r.tokens), Mask: drawnOutcomes, Outcomes: drawnOutcomes,
		Shape: []int{5, 6}, Step: step, Steps: drawnSteps, Quota: oneOf(r, 1, 4, 6),
		BlockFrom: 3, BlockTo: length, FreeCount: length - 3, EndTokens: []int32{2},
		OpenedLogP: slices.Clone(r.opened), CanCheckRun: true, State: r.state,
		Rand: samplers.Rand{Seed: 3, Step: uint32(step)},
	}
	logits := make([][]float32, length)
	logSums := make([]float64, length)
	for p := 3; p < length; p++ {
		sum := 0.0
		for range drawnOutcomes {
			x := oneOf(r, float32(-3), -1, 0, 0, 1, 4)
			logits[p] = append(logits[p], x)
			sum += math.Exp(float64(x))
		}
		logSums[p] = math.Log(sum)
		likeliest := int32(slices.Index(logits[p], slices.Max(logits[p])))
		drawn := int32(r.draw.IntN(drawnOutcomes))
		if v.Tokens[p] != v.Mask {
			v.Open = append(v.Open, p)
			v.OpenLogP = append(v.OpenLogP, math.Log(r.probability()))
			v.OpenP1 = append(v.OpenP1, r.probability())
			v.OpenArg = append(v.OpenArg, likeliest)
			v.OpenToken = append(v.OpenToken, drawn)
			v.OpenTokenLogP = append(v.OpenTokenLogP, math.Log(r.probability()))
			continue
		}
		v.Masked = append(v.Masked, p)
		v.LogMoment = append(v.LogMoment, -oneOf(r, 0.0, 0.5, 1, 2))
		v.Entropy = append(v.Entropy, oneOf(r, 0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 1, 1.5))
		v.P1 = append(v.P1, r.probability())
		v.P2 = append(v.P2, oneOf(r, 0.0, 0.05, 0.1))
		v.Arg = append(v.Arg, likeliest)
		v.Token = append(v.Token, drawn)
		v.LogP = append(v.LogP, math.Log(r.probability()))
		v.LogSum = append(v.LogSum, logSums[p])
	}
	v.Quota = min(v.Quota, len(v.Masked))
	v.Visit = func(positions []int, visit func(i int, logits []float32)) error {
		for i, p := range positions {
			visit(i, slices.Clone(logits[p]))
		}
		return nil
	}
	v.LookAhead = func(list []samplers.Opening) ([]float64, []int, error) {
		entropy := make([]float64, len(list))
		masked := make([]int, len(list))
		for i, o := range list {
			entropy[i] = oneOf(r, 1.0, 2, 3)
			masked[i] = len(v.Masked) - len(o.Positions)
		}
		return entropy, masked, nil
	}
	return v
}

// take applies an opening, and writes all of it.
func (r *drawnRun) take(v *samplers.View, o samplers.Opening, to hash.Hash) {
	fmt.Fprintf(to, "%v %v %.6g %.6g %v %v %v %v;", o.Positions, o.Tokens, o.LogP, o.Power, o.Close,
		o.Replace, o.Replacement, o.Stretch)
	for i, p := range o.Positions {
		r.tokens[p] = v.Token[slices.Index(v.Masked, p)]
		if o.Tokens != nil {
			r.tokens[p] = o.Tokens[i]
		}
		r.opened[p] = math.Log(r.probability())
	}
	for i, p := range o.Replace {
		r.tokens[p] = o.Replacement[i]
	}
	for _, p := range o.Close {
		r.tokens[p] = v.Mask
		r.opened[p] = 0
	}
}

// ruleTexts returns a rule's texts: its defaults, and each parameter at a few values.
func ruleTexts(info samplers.Info) []string {
	texts := []string{info.Name}
	for _, p := range info.Params {
		values := p.Words
		if len(values) == 0 {
			values = []string{"0", "0.3", "0.5", "1", "2", "3"}
		}
		for _, value := range values {
			texts = append(texts, info.Name+"("+p.Name+"="+value+")")
		}
	}
	return texts
}

// Every rule opens, closes and replaces what it did, at bounds and among equals too. A change on
// purpose rewrites its line: go test ./samplers -run TestRulesOpenWhatTheyDid -update.
func TestRulesOpenWhatTheyDid(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("logarithms differ in the last bit")
	}
	var lines []string
	for _, info := range samplers.List() {
		digest := sha256.New()
		opened := 0
		for _, text := range ruleTexts(info) {
			s, err := samplers.Parse(text)
			if err != nil {
				continue // out of a parameter's range, or without effect
			}
			clock, hasClock := samplers.As[samplers.Clock](s)
			for seed := range uint64(24) {
				r := newDrawnRun(seed, s)
				for step := 1; step <= drawnSteps; step++ {
					v := r.view(step)
					if len(v.Masked) == 0 {
						break
					}
					if hasClock {
						fmt.Fprintf(digest, "%.9g;", clock.Time(v))
					}
					o, err := s.Choose(v)
					require.NoError(t, err, text)
					require.Subset(t, v.Masked, o.Positions, "%s of seed %d", text, seed)
					opened += len(o.Positions)
					r.take(v, o, digest)
				}
			}
		}
		lines = append(lines, fmt.Sprintf("%s %x %d\n", info.Name, digest.Sum(nil)[:8], opened))
	}

	const name = "testdata/openings.txt"
	have := strings.Join(lines, "")
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(have), 0o666))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), have)
}
