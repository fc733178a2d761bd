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

	// unknown is the tokenizer's token for what has no other, or tokenizers.NoUnknown.
	unknown int32

	// before and after are the tokens that stand around every text.
	before []int32
	after  []int32

	// maxTokens is the most tokens of a text, with those around it.
	maxTokens int

	folder *folder
}

// New returns an Embedder by a model of texts of any length. What the folder of its weights says
// about embeddings is read here, so that a mistake in its files is found before the first text. A
// model of pictures, of one length only or with conditions is a *param.Error.
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

	if e.folder.lowercase {
		lower, err := tokenizers.WithLowercase(e.tokenizer)
		if err != nil {
			return nil, fmt.Errorf("%s: do_lower_case: %w", m.Name, err)
		}
		e.tokenizer = lower
	}
	e.tokenizer, e.unknown = tokenizers.WithUnknown(e.tokenizer)

	// A bound that has no room for the tokens around a text bounds nothing.
	bound := e.folder.maxTokens
	if bound > 0 && bound >= len(e.before)+len(e.after) {
		e.maxTokens = min(e.maxTokens, bound)
	}
	return e, nil
}

// PromptNames returns the names of the folder's prompts.
func (e *Embedder) PromptNames() []string { return slices.Sorted(maps.Keys(e.folder.prompts)) }

// Options say what vectors are wanted.
type Options struct {
	// Prompt names one of the folder's prompts, which goes before each text; "" takes the folder's
	// default, if it has one.
	Prompt string

	// Dimensions keeps the first numbers of each vector; 0 keeps as many as the folder says, or all.
	Dimensions int

	// Normalize gives vectors of length 1, whatever the folder says.
	Normalize bool

	// PerToken gives a vector for each of a text's own tokens, without pooling.
	PerToken bool

	Turn model.Turn
}

// Text is a text as the model reads it.
type Text struct {
	// Tokens have those around the text.
	Tokens []int32

	// Tokens[from:to] are the text's own, with those of a prompt.
	from int
	to   int

	// promptTokens counts the tokens of the prompt and those before it, if they are not pooled.
	promptTokens int

	// Truncated counts the tokens that were dropped because the text is too long.
	Truncated int

	// Unknown counts the unknown tokens among the text's own: words or characters that the
	// vocabulary lacks.
	Unknown int
}

// ContentTokens returns the number of the text's own tokens, with a prompt's.
func (t *Text) ContentTokens() int { return t.to - t.from }

// Bounds of a text to embed, in bytes.
const (
	bytesPerToken = 1024
	minTextBytes  = 256 << 10
	maxTextBytes  = 8 << 20
)

// MaxTextBytes returns the most bytes of a text: 1 KiB for each token that the model takes, but at
// least 256 KiB and at most 8 MiB. A text is read into tokens as a whole before it is truncated,
// and what is made of it on the way is up to 75 times as long. Its first bytes alone would not do:
// what follows them may change how they are normalized and split.
func (e *Embedder) MaxTextBytes() int {
	return min(max(bytesPerToken*e.maxTokens, minTextBytes), maxTextBytes)
}

// Tokenize returns the tokens of a text, after a prompt if there is one. A text that is too long is
// truncated if the folder is sentence-transformers', as that library does, and refused otherwise: a
// protein without its end would be another protein. What the vocabulary lacks becomes the unknown
// token, which Text.Unknown counts. Tokenize ends soon after ctx is done.
func (e *Embedder) Tokenize(ctx context.Context, text string, o Options) (*Text, error) {
	name := cmp.Or(o.Prompt, e.folder.defaultPrompt)
	prompt := ""
	if name != "" {
		names := e.PromptNames()
		if !slices.Contains(names, name) {
			return nil, param.Unknown("prompt", name, names)
		}
		prompt = e.folder.prompts[name]
	}
	if limit := e.MaxTextBytes(); len(text) > limit {
		return nil, &param.Error{
			Name:   "text",
			Found:  fmt.Sprintf("%d bytes", len(text)),
			Want:   fmt.Sprintf("at most %d for a model of %d tokens", limit, e.maxTokens),
			Reason: param.TooLong,
		}
	}
	ids, err := e.encode(ctx, prompt+text)
	if err != nil {
		return nil, err
	}
	t, err := e.WrapTokens(ids, o)
	if err == nil && prompt != "" && e.folder.excludePrompt {
		promptIDs, encodeErr := e.encode(ctx, prompt)
		t.promptTokens = len(e.before) + len(promptIDs)
		err = encodeErr
	}
	if err == nil && e.unknown != tokenizers.NoUnknown {
		for _, id := range t.Tokens[t.from:t.to] {
			if id == e.unknown {
				t.Unknown++
			}
		}
	}
	return t, err
}

// encode returns the tokens of a text; none of an empty one, which tokenizers refuse.
func (e *Embedder) encode(ctx context.Context, text string) ([]int32, error) {
	if text == "" {
		return nil, nil
	}
	return tokenizers.WithContext(ctx, e.tokenizer).Encode(text)
}

// WrapTokens is Tokenize for a text that is given as its own tokens. No prompt goes before it. No
// tokens, and more than the model reads where nothing may be cut, are a *param.Error.
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

	// A vector needs at least one row: those around the text will do where they are pooled.
	needsContent := e.folder.ownTokensOnly || o.PerToken || len(e.before)+len(e.after) == 0
	if len(ids) == 0 && needsContent {
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

// pooledRows returns the rows that a text's vector is made of: the first, and the one after the
// last.
func (e *Embedder) pooledRows(t *Text, o Options) (start, end int) {
	if o.PerToken || e.folder.ownTokensOnly {
		return t.from, t.to
	}
	return min(t.promptTokens, len(t.Tokens)-1), len(t.Tokens)
}

// Embed returns a vector of each text or, with Options.PerToken, the vectors [content tokens,
// width] of each. It takes the model's lock for one call of the model at a time. Numbers do not
// depend on what else is in the list. A number that is not finite is an error, because vectors with
// it compare with nothing.
func (e *Embedder) Embed(ctx context.Context, list []*Text, o Options) ([][]float32, error) {
	vectors := make([][]float32, len(list))
	tokens := make([][]int32, len(list))
	for i, t := range list {
		tokens[i] = t.Tokens
	}
	err := model.VisitGroups(e.model.Spec(), tokens, func(group []int) error {
		b := model.NewRaggedBatch(e.model.Spec(), model.Pick(tokens, group))
		for i, index := range group {
			start, end := e.pooledRows(list[index], o)
			for p := start; p < end; p++ {
				b.ReadRows = append(b.ReadRows, int32(i*b.Length+p))
			}
		}
		states, width, err := e.computeStates(ctx, b, o)
		if err != nil {
			return err
		}

		// A largest number would hide a NaN, so states are checked before they are pooled.
		if err := model.CheckFinite("hidden number", states); err != nil {
			return err
		}

		for _, index := range group {
			start, end := e.pooledRows(list[index], o)
			textStates := states[:(end-start)*width]
			states = states[len(textStates):]
			if o.PerToken {
				vectors[index] = textStates
				continue
			}
			vectors[index], err = e.poolVector(textStates, width, start, o)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return vectors, err
}

// computeStates computes a batch and returns the hidden states of the rows that it reads,
// [rows, width].
func (e *Embedder) computeStates(ctx context.Context, b *model.Batch, o Options) (states []float32,
	width int, err error) {
	release, err := o.Turn.Acquire(ctx, e.model.Denoiser)
	if err != nil {
		return nil, 0, err
	}
	defer release()
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

// poolVector pools states [n, width], the first of which is that of position first, and applies
// what the folder has after pooling. Several poolings are concatenated.
func (e *Embedder) poolVector(states []float32, width, first int, o Options) ([]float32, error) {
	var v []float64
	for _, mode := range e.folder.poolings {
		v = append(v, poolStates(mode, states, width, first)...)
	}
	if err := model.CheckFinite("number", v); err != nil { // a sum may overflow
		return nil, err
	}
	layers := e.folder.layers
	for _, l := range layers {
		v = l.apply(v)

		// A division by an infinite length would hide it as zeros, so each layer is checked.
		if err := model.CheckFinite("number", v); err != nil {
			return nil, err
		}
	}
	if o.Dimensions < 0 || o.Dimensions > len(v) {
		return nil, &param.Error{
			Name:  "dimensions",
			Found: fmt.Sprint(o.Dimensions),
			Want:  fmt.Sprintf("1 to %d", len(v)),
		}
	}

	// The first numbers of a vector of length 1 are shorter, so a folder that normalizes gets its
	// vectors normalized again.
	endsNormalized := len(layers) > 0 && layers[len(layers)-1].weight == nil
	normalize := o.Normalize || o.Dimensions > 0 && endsNormalized
	v = v[:min(len(v), cmp.Or(o.Dimensions, e.folder.dimensions))]
	if normalize {
		v = new(layer).apply(v)
	}

	vector := make([]float32, len(v))
	for i, x := range v {
		vector[i] = float32(x)
	}
	return vector, nil
}

// poolStates returns one vector of states [n, width] by a pooling of sentence-transformers: the
// largest of each number, or a weighted mean.
func poolStates(mode string, states []float32, width, first int) []float64 {
	if mode == "max" {
		return maxStates(states, width)
	}
	n := len(states) / width
	v := make([]float64, width)
	sum := 0.0 // of the weights
	for i := range n {
		weight := 1.0
		switch mode {
		case "cls":
			weight = float64(max(0, 1-i)) // only the first
		case "lasttoken":
			weight = float64(max(0, i-n+2)) // only the last
		case "weightedmean":
			weight = float64(first + i + 1)
		}
		sum += weight
		for j, x := range states[i*width : (i+1)*width] {
			v[j] += weight * float64(x)
		}
	}
	if mode == "mean_sqrt_len_tokens" {
		sum = math.Sqrt(sum)
	}
	for j := range v {
		v[j] /= sum
	}
	return v
}

// maxStates returns the largest of each number of states [n, width].
func maxStates(states []float32, width int) []float64 {
	v := make([]float64, width)
	for i := range len(states) / width {
		for j, x := range states[i*width : (i+1)*width] {
			if i == 0 || float64(x) > v[j] {
				v[j] = float64(x)
			}
		}
	}
	return v
}

// apply returns a layer's output for a vector.
func (l *layer) apply(v []float64) []float64 {
	if l.weight == nil {
		return normalizeVector(v)
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

// normalizeVector returns a vector divided by its length. The bound is that of
// torch.nn.functional.normalize, so that a vector of zeros stays one.
func normalizeVector(v []float64) []float64 {
	square := 0.0
	for _, x := range v {
		square += x * x
	}
	length := max(math.Sqrt(square), 1e-12)
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = x / length
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
