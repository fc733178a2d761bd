// Package embed makes vectors of texts from a network's last hidden states. A folder that
// sentence-transformers saved says how: its pooling, its matrices, its prompts. Without such files
// a text's vector is the mean of the states at its own tokens.
package embed

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"unmask"
	"unmask/model"
	"unmask/param"
	"unmask/tokenizers"
)

// Embedder makes vectors of texts. Several goroutines may use one.
type Embedder struct {
	model     *unmask.Model
	tokenizer tokenizers.Tokenizer
	before    []int32
	after     []int32
	maxTokens int
	folder    *folder
}

// New returns what makes vectors by a model.
func New(m *unmask.Model) (*Embedder, error) {
	e := &Embedder{model: m, tokenizer: m.Tokenizer}
	spec := m.Spec()
	if m.Text != nil {
		e.tokenizer = m.Text.Tokenizer
	}
	if e.tokenizer == nil || spec.Fixed || spec.IsConditional() {
		return nil, param.Refuse("model", param.Unsupported, "model is a %s of sequences that it does "+
			"not embed, want one of texts of any length", m.Info.Architecture)
	}
	e.before, e.after = surroundingTokens(e.tokenizer, spec)
	e.maxTokens = spec.Length()
	e.folder = &folder{ownTokensOnly: true, poolings: []string{"mean"}, dimensions: unlimited}
	if m.Source != nil && m.Source.Files != nil {
		if err := e.folder.readFiles(m.Source.Files, m.Info.Sizes["hidden"]); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	if n := e.folder.maxTokens; n > 0 && n >= len(e.before)+len(e.after) { // nothing is cut to fewer
		e.maxTokens = min(e.maxTokens, n)
	}
	return e, nil
}

// PromptNames returns the names of the folder's prompts.
func (e *Embedder) PromptNames() []string { return slices.Sorted(maps.Keys(e.folder.prompts)) }

// Options say what vectors are wanted.
type Options struct {
	Prompt     string // the name of one of the folder's prompts, which goes before each text
	Dimensions int    // the first numbers of each vector; 0: as many as the folder says, or all
	Normalize  bool   // vectors of length 1, whatever the folder says
	PerToken   bool   // a vector for each of a text's own tokens, without pooling
	Turn       model.Turn
}

// Text is a text as the model reads it.
type Text struct {
	Tokens       []int32 // with those around it
	from         int
	to           int // its own tokens, with a prompt's
	promptTokens int // how many tokens belong to the prompt and what is before it
	Truncated    int // tokens that were left out because the text is too long
}

// ContentTokens returns the number of the text's own tokens, with a prompt's.
func (t *Text) ContentTokens() int { return t.to - t.from }

// Tokenize returns the tokens of a text. One that is too long is cut where the folder is
// sentence-transformers', and refused elsewhere.
func (e *Embedder) Tokenize(text string, o Options) (*Text, error) {
	name := cmp.Or(o.Prompt, e.folder.defaultPrompt)
	prompt := ""
	if name != "" {
		names := e.PromptNames()
		if !slices.Contains(names, name) {
			return nil, param.Unknown("prompt", name, names)
		}
		prompt = e.folder.prompts[name]
	}
	ids, err := e.encode(prompt + text)
	if err != nil {
		return nil, err
	}
	t, err := e.WrapTokens(ids, o)
	if err == nil && prompt != "" && e.folder.excludePrompt {
		promptIDs, failed := e.encode(prompt)
		t.promptTokens = len(e.before) + len(promptIDs)
		err = failed
	}
	return t, err
}

// encode returns the tokens of a text; of an empty one there are none.
func (e *Embedder) encode(text string) ([]int32, error) {
	if e.folder.lowercase {
		text = tokenizers.Lowercase(text)
	}
	if text == "" {
		return nil, nil
	}
	return e.tokenizer.Encode(text)
}

// WrapTokens is Read for a text's own tokens, before which no prompt goes.
func (e *Embedder) WrapTokens(ids []int32, o Options) (*Text, error) {
	room := max(0, e.maxTokens-len(e.before)-len(e.after))
	t := &Text{from: len(e.before), Truncated: max(0, len(ids)-room)}
	switch {
	case t.Truncated > 0 && e.folder.ownTokensOnly:
		return nil, &param.Error{
			Name:   "text",
			Found:  fmt.Sprintf("%d tokens", len(ids)),
			Want:   fmt.Sprintf("1 to %d", room),
			Reason: param.TooLong,
		}
	case e.folder.truncateLeft:
		ids = ids[t.Truncated:]
	default:
		ids = ids[:len(ids)-t.Truncated]
	}
	if len(ids) == 0 && (e.folder.ownTokensOnly || o.PerToken || len(e.before)+len(e.after) == 0) {
		return nil, &param.Error{
			Name:   "text",
			Found:  "empty",
			Want:   "at least one token",
			Reason: param.Missing,
		}
	}
	t.Tokens = slices.Concat(e.before, ids, e.after)
	t.to = t.from + len(ids)
	return t, nil
}

// pooledRows returns the rows that a text's vector is made of.
func (e *Embedder) pooledRows(t *Text, o Options) (from, to int) {
	if o.PerToken || e.folder.ownTokensOnly {
		return t.from, t.to
	}
	return min(t.promptTokens, len(t.Tokens)-1), len(t.Tokens)
}

// Embed returns a vector of each text or, with Options.Each, the vectors [own tokens, width] of
// each. It takes the model's lock for one call of the model at a time. Numbers do not depend on
// what else is in the list.
func (e *Embedder) Embed(ctx context.Context, list []*Text, o Options) ([][]float32, error) {
	vectors := make([][]float32, len(list))
	tokens := make([][]int32, len(list))
	for i, t := range list {
		tokens[i] = t.Tokens
	}
	err := model.VisitGroups(e.model.Spec(), tokens, func(group []int) error {
		b := model.NewRaggedBatch(e.model.Spec(), model.Pick(tokens, group))
		for i, index := range group {
			from, to := e.pooledRows(list[index], o)
			for p := from; p < to; p++ {
				b.ReadRows = append(b.ReadRows, int32(i*b.Length+p))
			}
		}
		states, width, err := e.computeStates(ctx, b, o)
		for _, i := range group {
			if err != nil {
				return err
			}
			from, to := e.pooledRows(list[i], o)
			textStates := states[:(to-from)*width]
			states = states[len(textStates):]
			vectors[i] = textStates
			if !o.PerToken {
				vectors[i], err = e.poolVector(textStates, width, from, o)
			}
		}
		return err
	})
	return vectors, err
}

// computeStates computes a batch and returns the states of the rows that it reads.
func (e *Embedder) computeStates(ctx context.Context, b *model.Batch, o Options) (states []float32,
	width int, err error) {
	done, err := o.Turn.Acquire(ctx, e.model.Denoiser)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	marginals, err := e.model.Forward(ctx, b)
	if err != nil {
		return nil, 0, err
	}
	hidden, ok := marginals.(model.HiddenStates)
	if !ok {
		return nil, 0, fmt.Errorf("a %s does not show its hidden states", e.model.Info.Architecture)
	}
	return hidden.Hidden(b.ReadRows)
}

// poolVector pools states [n, width], the first of which is that of position `first`.
func (e *Embedder) poolVector(states []float32, width, first int, o Options) ([]float32, error) {
	var v []float64
	for _, mode := range e.folder.poolings {
		v = append(v, poolStates(mode, states, width, first)...)
	}
	layers := e.folder.layers
	for _, l := range layers {
		v = l.apply(v)
	}
	if o.Dimensions < 0 || o.Dimensions > len(v) {
		return nil, &param.Error{
			Name:  "dimensions",
			Found: fmt.Sprint(o.Dimensions),
			Want:  fmt.Sprintf("1 to %d", len(v)),
		}
	}
	n := len(layers)
	unit := o.Normalize || o.Dimensions > 0 && n > 0 && layers[n-1].weight == nil
	v = v[:min(len(v), cmp.Or(o.Dimensions, e.folder.dimensions))]
	if unit {
		v = new(layer).apply(v)
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out, nil
}

// poolStates returns one vector for states [n, width].
func poolStates(mode string, states []float32, width, first int) []float64 {
	n := len(states) / width
	v := make([]float64, width)
	weights := 0.0
	for i := range n {
		weight := 1.0
		switch mode {
		case "cls":
			weight = float64(max(0, 1-i))
		case "lasttoken":
			weight = float64(max(0, i-n+2))
		case "weightedmean":
			weight = float64(first + i + 1)
		}
		weights += weight
		for j, x := range states[i*width : (i+1)*width] {
			if x := float64(x); mode != "max" {
				v[j] += weight * x
			} else if i == 0 || x > v[j] {
				v[j] = x
			}
		}
	}
	switch mode {
	case "max":
		return v
	case "mean_sqrt_len_tokens":
		weights = math.Sqrt(weights)
	}
	for j := range v {
		v[j] /= weights
	}
	return v
}

// apply returns what a layer makes of a vector.
func (l *layer) apply(v []float64) []float64 {
	if l.weight == nil {
		square := 0.0
		for _, x := range v {
			square += x * x
		}
		out := make([]float64, len(v))
		length := max(math.Sqrt(square), 1e-12)
		for i, x := range v {
			out[i] = x / length
		}
		return out
	}
	out := make([]float64, len(l.weight)/len(v))
	for i := range out {
		if l.bias != nil {
			out[i] = float64(l.bias[i])
		}
		for j, w := range l.weight[i*len(v) : (i+1)*len(v)] {
			out[i] += float64(w) * v[j]
		}
		out[i] = l.activate(out[i])
	}
	return out
}

// activations are those of Dense.
var activations = map[string]func(float64) float64{
	"Identity": func(x float64) float64 { return x },
	"Tanh":     math.Tanh,
	"ReLU":     func(x float64) float64 { return max(x, 0) },
	"GELU":     func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) },
	"Sigmoid":  func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
}
