package encoders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
	"unmask/tokenizers"
	"unmask/weights"
)

// Laya is a ModernBERT with a head for typed questions in place of one for tokens
// (convaiinnovations/laya and relatives; code NandhaKishorM/laya@8ef5b2d). Each option of a
// question has a mask before it, and the state of that position is its score. It has no marginals.
type Laya struct {
	headlessModel
	m        *Model
	agent    layaAgent
	cls, sep int32
}

// LayaHead is what stands behind the trunk: transformer layers over all rows, a score for each
// option's state, and a head that says whether to act on the answer.
type LayaHead struct {
	Types  weights.Param `weight:"type_emb.weight"` // [3, hidden], by layaKinds
	Layers []layaLayer   `weight:"head.layers"`
	Norm   nn.LayerNorm  `weight:"scorer.0"`
	Inner  nn.Linear     `weight:"scorer.1"`   // [inner, hidden]
	Score  nn.Linear     `weight:"scorer.3"`   // [1, inner]
	ActIn  nn.Linear     `weight:"act_head.0"` // of the first state and four facts
	Act    nn.Linear     `weight:"act_head.2"`

	types *tensor.Dense // [3, hidden]: Types on the device
	layer attention.Layer
	inner *tensor.Dense // [rows, 4*hidden]

	// sequenceKinds are the kinds of the batch's questions, and rowKinds that of each row of the pass.
	sequenceKinds []int32
	rowKinds      []int32
}

// layaLayer is one of torch's TransformerEncoderLayer, its norms before the branches, with ReLU.
type layaLayer struct {
	In    weights.Param `weight:"self_attn.in_proj_weight"` // [3*hidden, hidden]
	Bias  weights.Param `weight:"self_attn.in_proj_bias"`
	Out   nn.Linear     `weight:"self_attn.out_proj"`
	Norm1 nn.LayerNorm  `weight:"norm1"`
	Norm2 nn.LayerNorm  `weight:"norm2"`
	Up    nn.Linear     `weight:"linear1"`
	Down  nn.Linear     `weight:"linear2"`

	joined nn.JoinedLinear
}

// layaAgent is rl_agent_config.json as far as answers depend on it.
type layaAgent struct {
	Layers      int `json:"head_layers"`
	Longest     int `json:"max_len"`      // tokens of a question
	HeadLongest int `json:"head_max_len"` // tokens before the state

	// Temperature has a number for each kind of question, and ByOptions numbers for a kind with a
	// certain number of options, which count more. What is no number counts as 1.
	Temperature []any          `json:"temperature"`
	ByOptions   map[string]any `json:"temperature_by_options"`
}

// isLaya reports whether a source has Laya's head.
func isLaya(src *model.Source) bool {
	return src.HasTensor("act_head.0.weight") && src.HasTensor("type_emb.weight")
}

// layaTensors are those of the head; temperature is not read: the configuration's counts.
var layaTensors = []string{"head.layers.*", "type_emb.*", "scorer.*", "act_head.*", "temperature"}

// newLaya reads the head's configuration and tensors.
func newLaya(src *model.Source, m *Model, set *weights.Set) (*Laya, error) {
	c := &m.cfg
	l := &Laya{headlessModel: headlessModel{m}, m: m}
	l.agent = layaAgent{Layers: 2, Longest: 512, HeadLongest: 192} // the published program's defaults
	data, err := model.ReadFile(src.Files, "rl_agent_config.json", maxLength)
	if err == nil {
		err = json.Unmarshal(data, &l.agent)
	}
	a := &l.agent
	width := c.Hidden
	heads := max(1, c.Hidden/64)
	if err == nil && (a.Layers < 0 || a.Layers > maxLayers || a.Longest < 8 || a.Longest > c.Length ||
		a.HeadLongest < 1 || width%heads != 0) {
		err = fmt.Errorf("head_layers is %d, max_len %d, head_max_len %d, want layers, 8 to %d and 1 or "+
			"more tokens", a.Layers, a.Longest, a.HeadLongest, c.Length)
	}
	if err != nil {
		return nil, fmt.Errorf("rl_agent_config.json: %w", err)
	}

	var hasCLS, hasSEP bool
	l.cls, hasCLS = tokenizers.Role(c.tokens.tokenizer, "cls_token")
	l.sep, hasSEP = tokenizers.Role(c.tokens.tokenizer, "sep_token")
	if !hasCLS || !hasSEP {
		return nil, fmt.Errorf("tokenizer_config.json names no cls_token and sep_token, want both")
	}

	inner, err := model.TensorShape(set, "scorer.1.weight", 2)
	if err != nil {
		return nil, err
	}
	act, err := model.TensorShape(set, "act_head.2.weight", 2)
	if err != nil {
		return nil, err
	}
	h := newLayaHead(width, a.Layers, inner[0])
	h.ActIn = nn.NewLinear(width+4, act[1])
	h.Act = nn.NewLinear(act[1], act[0])
	m.laya = h
	return l, weights.Bind(h, set, weights.BindOptions{Ignore: []string{"model.*", "temperature"}})
}

// newLayaHead returns a head without weights and without what says whether to act. width is that of
// the trunk's states, inner that inside the scorer.
func newLayaHead(width, layers, inner int) *LayaHead {
	heads := max(1, width/64)
	h := &LayaHead{
		Types: matrixParam(len(layaKinds), width),
		Norm:  nn.NewLayerNorm(width, 1e-5),
		Inner: nn.NewLinear(width, inner),
		Score: nn.NewLinear(inner, 1),
		layer: attention.Layer{Heads: heads, HeadDim: width / heads},
	}
	for range layers {
		h.Layers = append(h.Layers, layaLayer{
			In:    matrixParam(3*width, width),
			Bias:  weights.Param{Shape: []int{3 * width}},
			Out:   nn.NewLinear(width, width),
			Norm1: nn.NewLayerNorm(width, 1e-5),
			Norm2: nn.NewLayerNorm(width, 1e-5),
			Up:    nn.NewLinear(width, 4*width),
			Down:  nn.NewLinear(4*width, width),
		})
	}
	return h
}

// packWeights packs the bound weights.
func (h *LayaHead) packWeights(l *nn.Loader) {
	h.types = l.Table(&h.Types)
	h.layer.BF16 = l.Precision != backend.F32
	for i := range h.Layers {
		layer := &h.Layers[i]
		layer.joined.Load(l, &nn.Linear{Weight: layer.In, Bias: layer.Bias})
		l.Load(&layer.Out, &layer.Norm1, &layer.Up, &layer.Down, &layer.Norm2)
	}
	l.Load(&h.Norm, &h.Inner, &h.Score, &h.ActIn, &h.Act)
}

// cacheShapes are the shapes of the layers' keys and values.
func (h *LayaHead) cacheShapes() []kvcache.Layer {
	return slices.Repeat([]kvcache.Layer{{Heads: h.layer.Heads, HeadDim: h.layer.HeadDim}},
		len(h.Layers))
}

// runPass runs the head's layers over all rows of w.X [rows, hidden], the last one over those that
// are read, and returns the rows that are left. firstLayer is the number of the trunk's layers.
func (h *LayaHead) runPass(b backend.Backend, w *nn.Work, p *model.Pass,
	firstLayer int) *model.Pass {
	h.rowKinds = h.rowKinds[:0]
	for _, s := range p.Sequences {
		h.rowKinds = append(h.rowKinds, slices.Repeat(h.sequenceKinds[s.Seq:s.Seq+1], s.Rows)...)
	}
	h.computeLayers(b, w, p.Len(), func(i int) int {
		p = p.Attend(b, &h.layer, w, firstLayer+i, p.RowsToRead(i == len(h.Layers)-1))
		return p.Len()
	})
	return p
}

// computeLayers runs the layers over n rows of w.X, whose kinds are rowKinds. attend computes the
// attention of a layer, from w.QKV to w.H, and returns how many rows are left.
func (h *LayaHead) computeLayers(b backend.Backend, w *nn.Work, n int,
	attend func(i int) (left int)) {
	width := w.X.Shape()[1]
	h.inner = backend.Grow(b, h.inner, n, 4*width)
	b.AddRows(w.X, h.types, h.rowKinds) // [rows, hidden]
	for i := range h.Layers {
		layer := &h.Layers[i]

		layer.Norm1.Apply(b, w.H, w.X, n)    // [rows, hidden]
		layer.joined.Apply(b, w.QKV, w.H, n) // [rows, 3*hidden]
		n = attend(i)
		layer.Out.AddTo(b, w.X, w.H, n) // [rows, hidden]

		layer.Norm2.Apply(b, w.H, w.X, n)                // [rows, hidden]
		layer.Up.Apply(b, h.inner, w.H, n, backend.ReLU) // [rows, 4*hidden]
		layer.Down.AddTo(b, w.X, h.inner, n)             // [rows, hidden]
	}
}

// scoreRows returns the scores of n states x [n, hidden], which it overwrites.
func (h *LayaHead) scoreRows(b backend.Backend, x *tensor.Dense, n int) []float32 {
	inner := b.New(n, h.Inner.Weight.Shape[0])
	score := b.New(n, 1)
	h.Norm.Apply(b, x, x, n)                            // [n, hidden]
	h.Inner.Apply(b, inner, x, n, backend.GELUErf)      // [n, inner]
	h.Score.Apply(b, score, inner, n, backend.Identity) // [n, 1]
	scores := make([]float32, n)
	b.Read(scores, score, 0)
	return scores
}

// QuestionHead is Laya's head over another trunk, without what says whether to act on an answer.
type QuestionHead struct {
	Layers *LayaHead `weight:""`

	work nn.Work
	k, v *tensor.Dense // of one layer, [1, heads, rows, headDim]
	rows attention.Rows
}

// NewQuestionHead returns a head without weights. width is that of the trunk's states, inner that
// inside the scorer.
func NewQuestionHead(width, layers, inner int) *QuestionHead {
	return &QuestionHead{Layers: newLayaHead(width, layers, inner)}
}

// Load packs the bound weights.
func (h *QuestionHead) Load(l *nn.Loader) { h.Layers.packWeights(l) }

// Score returns the scores of the options of a question, whose masks are some of its positions.
// states, [positions, width], are the trunk's. kind is choice, score or noul.
func (h *QuestionHead) Score(b backend.Backend, states []float32, kind string,
	masks []int32) []float32 {
	head := h.Layers
	layer := &head.layer
	width := head.Types.Shape[1]
	n := len(states) / width
	w := &h.work
	w.Prepare(b, n, width, 1)
	b.Write(w.X, 0, states)
	if h.k == nil || h.k.Shape()[2] < n {
		h.k = b.New(1, layer.Heads, n, layer.HeadDim)
		h.v = b.New(1, layer.Heads, n, layer.HeadDim)
	}
	h.rows.FillSequences(0, 1, n)
	head.rowKinds = slices.Repeat([]int32{int32(slices.Index(layaKinds, kind))}, n)
	head.computeLayers(b, w, n, func(int) int {
		layer.Apply(b, w.H, w.Q, h.k, h.v, w.QKV, &h.rows, n)
		return n
	})
	x := b.New(len(masks), width)
	b.Gather(x, w.X, masks)
	return head.scoreRows(b, x, len(masks))
}

// Forward implements model.Denoiser. It returns an error: the network has no marginals.
func (l *Laya) Forward(context.Context, *model.Batch) (model.Marginals, error) {
	return nil, errors.New("a laya answers typed questions alone")
}

// LayaAnswer is Laya's answer to a question.
type LayaAnswer struct {
	// Probabilities are those of the options, after the temperature.
	Probabilities []float64

	// Confidence is 1 - entropy/ln n of n options; for noul the larger probability.
	Confidence float64

	// Act is the probability that acting on the answer is right.
	Act float64
}

// Answer answers questions as one batch. The caller holds the lock (model.LockOf).
func (l *Laya) Answer(ctx context.Context, questions []LayaPrompt) (answers []LayaAnswer,
	err error) {
	defer backend.Recover(&err)
	h := l.m.laya
	d := l.m.b
	var tokens [][]int32
	h.sequenceKinds = h.sequenceKinds[:0]
	for _, q := range questions {
		tokens = append(tokens, q.Tokens)
		h.sequenceKinds = append(h.sequenceKinds, q.kind)
	}
	b := model.NewRaggedBatch(l.Spec(), tokens)

	// The rows of a question are its first position and then its options' masks.
	var rows []int32
	for i, q := range questions {
		rows = append(rows, int32(i*b.Length))
		for _, position := range q.MaskPositions {
			rows = append(rows, int32(i*b.Length)+position)
		}
	}
	if len(h.Layers) > 0 { // only the head's last layer can drop the other rows
		b.ReadRows = slices.Compact(slices.Sorted(slices.Values(rows)))
	}
	marginals, err := l.headlessModel.Forward(ctx, b)
	if err != nil {
		return nil, err
	}
	states, width, err := marginals.(model.HiddenStates).Hidden(rows) // [rows, hidden]
	if err != nil {
		return nil, err
	}

	n := len(rows)
	x := d.New(n, width)
	d.Write(x, 0, states)
	logits := h.scoreRows(d, x, n)

	first := 0 // row of the question's first position
	for _, q := range questions {
		options := logits[first+1 : first+1+len(q.MaskPositions)]
		firstState := states[first*width : (first+1)*width]
		act := h.actProbability(d, slices.Concat(firstState, actFacts(options)))
		answers = append(answers, l.deriveAnswer(&q, options, act))
		first += 1 + len(q.MaskPositions)
	}
	return answers, nil
}

// actProbability returns the first probability of the act head, given its input [hidden+4].
func (h *LayaHead) actProbability(d backend.Backend, input []float32) float64 {
	logits := make([]float32, h.Act.Weight.Shape[0])
	x := d.New(1, len(input))
	inner := d.New(1, h.Act.Weight.Shape[1])
	out := d.New(1, len(logits))
	d.Write(x, 0, input)
	h.ActIn.Apply(d, inner, x, 1, backend.GELUErf)
	h.Act.Apply(d, out, inner, 1, backend.Identity)
	d.Read(logits, out, 0)
	return nn.Probabilities(logits, 1)[0]
}

// actFacts are what the act head sees beside the first state, of the probabilities before the
// temperature: the largest, its lead, the entropy's share of its maximum, and the number of
// options.
func actFacts(logits []float32) []float32 {
	p := nn.Probabilities(logits, 1)
	n := float64(max(len(logits), 2))
	entropy := 0.0
	for _, x := range p {
		entropy -= x * math.Log(max(x, 1e-9))
	}
	slices.Sort(p)
	top := p[len(p)-1]
	second := 0.0
	if len(p) > 1 {
		second = p[len(p)-2]
	}
	return []float32{float32(top), float32(top - second), float32(entropy / math.Log(n)),
		float32(n / 255)}
}

// deriveAnswer computes from the options' scores what the published program does.
func (l *Laya) deriveAnswer(q *LayaPrompt, logits []float32, act float64) LayaAnswer {
	n := len(logits)
	probabilities := nn.Probabilities(logits, l.agent.temperatureFor(q.kind, n))
	a := LayaAnswer{Probabilities: probabilities, Act: act, Confidence: 1}
	switch {
	case layaKinds[q.kind] == "noul":
		a.Confidence = slices.Max(probabilities)
	case n > 1:
		entropy := 0.0
		for _, x := range probabilities {
			entropy -= x * math.Log(max(x, 1e-12))
		}
		a.Confidence = min(1, max(0, 1-entropy/math.Log(float64(n))))
	}
	return a
}

// temperatureFor returns the temperature of a kind of questions with n options, held within 0.5 and
// 5.
func (a *layaAgent) temperatureFor(kind int32, n int) float64 {
	size := "11+"
	switch {
	case n <= 2:
		size = "2"
	case n <= 5:
		size = "3-5"
	case n <= 10:
		size = "6-10"
	}
	var value any = 1.0
	if int(kind) < len(a.Temperature) {
		value = a.Temperature[kind]
	}
	if special, ok := a.ByOptions[layaKinds[kind]+":"+size]; ok {
		value = special
	}
	t, ok := value.(float64)
	if !ok {
		return 1
	}
	return min(5, max(0.5, t))
}
