package encoders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/param"
	"unmask/tokenizers"
	"unmask/weights"
)

// Von is a ModernBERT with a scorer for the options of typed questions (wfzyx/von, versions 1.1 and
// 1.2). Each option has a mask before it, and a score of the mask's state. It has no marginals.
//
// In version 1.1 all tokens see each other. In 1.2 options are independent: what is outside of them
// sees only that, and an option sees it and itself, at positions that go on from the first mask's.
type Von struct {
	headlessModel
	m           *Model
	calibration vonCalibration
	cls, sep    int32
}

// vonHead scores the states of the options' masks.
type vonHead struct {
	InputNorm nn.LayerNorm `weight:"scorer.input_norm"`
	Dense     nn.Linear    `weight:"scorer.dense"` // [inner, hidden]
	Norm      nn.LayerNorm `weight:"scorer.norm"`
	Out       nn.Linear    `weight:"scorer.out_proj"` // [1, inner]

	// Keys and values of one question with one option.
	k, v *tensor.Dense // [1, heads, positions, headDim]
}

// vonCalibration is marker_calibration.json.
type vonCalibration struct {
	Temperature *float64 `json:"temperature"`

	// Map, where it is there, gives the temperature of a question.
	Map *vonTemperature `json:"calibration_map"`

	Independent bool `json:"independent_options"`

	// DigitSplit means that "2026" is read as "2 0 2 6".
	DigitSplit bool `json:"digit_split"`

	// Prior is what a noul without descriptions loses of the lead that true has where there is no
	// state: A times that lead, and B.
	Prior *struct {
		A float64 `json:"a"`
		B float64 `json:"b"`
	} `json:"noul_zero_shot_prior"`
}

// vonTemperature is a temperature that is linear in what is known of a question.
type vonTemperature struct {
	Bias      float64  `json:"bias"`
	Entropy   float64  `json:"entropy"`
	LogTokens float64  `json:"log_tokens"`
	Options   float64  `json:"n_options"`
	Least     *float64 `json:"lo"`
	Most      *float64 `json:"hi"`
}

// vonCalibrationFile is beside the weights.
const vonCalibrationFile = "marker_calibration.json"

// vonTensors are those of the scorer.
const vonTensors = "scorer.*"

// isVon reports whether a source has von's scorer.
func isVon(src *model.Source) bool { return src.HasTensor("scorer.input_norm.weight") }

// renameVon returns a source whose tensors have ModernBERT's own names, which von's have below
// encoder.
func renameVon(src *model.Source) (*model.Source, error) {
	if !isVon(src) {
		return src, nil
	}
	set, err := src.Set.View(func(name string, t *weights.Tensor) (string, *weights.Tensor, error) {
		if inner, ok := strings.CutPrefix(name, "encoder."); ok {
			named := *t
			named.Name = "model." + inner
			return named.Name, &named, nil
		}
		return name, t, nil
	})
	if err != nil {
		return nil, err
	}
	renamed := *src
	renamed.Set = set
	return &renamed, nil
}

// newVon reads the calibration and the scorer's tensors.
func newVon(src *model.Source, m *Model, set *weights.Set) (*Von, error) {
	c := &m.cfg
	v := &Von{headlessModel: headlessModel{m}, m: m}
	data, err := model.ReadFile(src.Files, vonCalibrationFile, maxLength)
	if err == nil {
		err = json.Unmarshal(data, &v.calibration)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vonCalibrationFile, err)
	}
	var hasCLS, hasSEP bool
	v.cls, hasCLS = tokenizers.Role(c.tokens.tokenizer, "cls_token")
	v.sep, hasSEP = tokenizers.Role(c.tokens.tokenizer, "sep_token")
	if !hasCLS || !hasSEP {
		return nil, fmt.Errorf("tokenizer_config.json names no cls_token and sep_token, want both")
	}
	if c.Window == 0 {
		return nil, fmt.Errorf("the trunk has no local attention, want a ModernBERT")
	}
	dense, err := model.TensorShape(set, "scorer.dense.weight", 2)
	if err != nil {
		return nil, err
	}
	m.von = &vonHead{
		InputNorm: nn.NewLayerNorm(c.Hidden, 1e-5),
		Dense:     nn.NewLinear(c.Hidden, dense[0]),
		Norm:      nn.NewLayerNorm(dense[0], 1e-5),
		Out:       nn.NewLinear(dense[0], 1),
	}
	return v, weights.Bind(m.von, set, weights.BindOptions{Ignore: []string{"model.*"}})
}

// describe says which version it is, by the key that decides it.
func (v *Von) describe() string {
	if v.calibration.Independent {
		return "options do not see each other, as of version 1.2 (independent_options)"
	}
	return "options see each other, as in version 1.1 (no independent_options)"
}

// packWeights packs the bound weights.
func (h *vonHead) packWeights(l *nn.Loader) { l.Load(&h.InputNorm, &h.Dense, &h.Norm, &h.Out) }

// Forward implements model.Denoiser. It returns an error: the network has no marginals.
func (v *Von) Forward(context.Context, *model.Batch) (model.Marginals, error) {
	return nil, errors.New("von answers typed questions alone")
}

// VonQuestion is a question in the words that the network was trained on.
type VonQuestion struct {
	Instructions string
	State        string
	Options      []string // of a noul true, then false
}

// VonPrompt is a question as tokens.
type VonPrompt struct {
	Tokens []int32

	// MaskPositions are the positions of the options' masks.
	MaskPositions []int32

	// stateTokens is the length of the state alone, at least 1.
	stateTokens int
}

// digitRun is a number of several digits.
var digitRun = regexp.MustCompile(`\d+`)

// EncodeQuestion returns the tokens of a question:
//
//	[CLS] INSTRUCTIONS STATE [SEP] {[MASK] OPTION} [SEP]
//
// A text that spells the mask is refused, because it would be another option; that of other special
// tokens is plain text. It is an error if the question is longer than the network's positions.
func (v *Von) EncodeQuestion(q VonQuestion) (p VonPrompt, err error) {
	t := v.m.cfg.tokens.tokenizer
	mask := v.m.cfg.Mask
	maskText, _ := t.Token(mask)
	encode := func(text string) []int32 {
		if v.calibration.DigitSplit {
			text = digitRun.ReplaceAllStringFunc(text, func(run string) string {
				return strings.Join(strings.Split(run, ""), " ")
			})
		}
		ids, encodeErr := t.Encode(text)
		if err == nil {
			err = encodeErr
		}
		return ids
	}
	for _, text := range append([]string{q.Instructions, q.State}, q.Options...) {
		if strings.Contains(text, maskText) {
			return p, &param.Error{
				Name:   "state",
				Found:  "with " + maskText,
				Want:   "a question without it: this is the mark of an option",
				Reason: param.Unsupported,
			}
		}
	}

	text := q.State
	if q.Instructions != "" {
		text = q.Instructions + " " + q.State
	}
	p.Tokens = append(p.Tokens, v.cls)
	p.Tokens = append(p.Tokens, encode(strings.TrimSpace(text)+" ")...)
	p.Tokens = append(p.Tokens, v.sep)
	for i, option := range q.Options {
		p.MaskPositions = append(p.MaskPositions, int32(len(p.Tokens)))
		p.Tokens = append(p.Tokens, mask)
		words := strings.TrimSpace(option)
		// Blanks before a mask are the mask's own, as the tokenizer's file says.
		if words != "" || i == len(q.Options)-1 {
			p.Tokens = append(p.Tokens, encode(" "+words)...)
		}
	}
	p.Tokens = append(p.Tokens, v.sep)
	if err != nil {
		return p, err
	}
	state, err := t.Encode(q.State) // its digits as they are
	p.stateTokens = max(1, len(state))
	if n := v.m.cfg.Length; err == nil && len(p.Tokens) > n {
		err = &param.Error{
			Name:   "state",
			Found:  "too long",
			Want:   fmt.Sprintf("at most %d tokens with its question", n),
			Reason: param.TooLong,
		}
	}
	return p, err
}

// Answer returns the probabilities of a question's options. empty is the same question without a
// state where it is a noul without descriptions, and nil for others: the lead that true has there
// is no answer, and a part of it is taken off. The caller holds the lock (model.LockOf).
func (v *Von) Answer(ctx context.Context, q VonPrompt, empty *VonPrompt) (p []float64, err error) {
	defer backend.Recover(&err)
	logits, err := v.score(ctx, q)
	if err != nil {
		return nil, err
	}
	if empty != nil {
		bare, err := v.score(ctx, *empty)
		if err != nil {
			return nil, err
		}
		a := 0.7
		b := 0.0
		if prior := v.calibration.Prior; prior != nil {
			a = prior.A
			b = prior.B
		}
		logits[0] -= float32(a*float64(bare[0]-bare[1]) + b)
	}
	t := v.calibration.temperatureOf(logits, q.stateTokens)
	return nn.Probabilities(logits, max(t, 1e-4)), nil
}

// temperatureOf returns the temperature of a question.
func (c *vonCalibration) temperatureOf(logits []float32, stateTokens int) float64 {
	if c.Map == nil {
		if c.Temperature == nil {
			return 1
		}
		return *c.Temperature
	}
	n := float64(len(logits))
	entropy := 0.0
	for _, x := range nn.Probabilities(logits, 1) {
		entropy -= x * math.Log(max(x, 1e-12))
	}
	if n > 1 {
		entropy /= math.Log(n)
	} else {
		entropy = 0
	}
	least := 0.5
	most := 12.0
	if c.Map.Least != nil {
		least = *c.Map.Least
	}
	if c.Map.Most != nil {
		most = *c.Map.Most
	}
	t := c.Map.Bias + c.Map.Entropy*entropy + c.Map.LogTokens*math.Log10(float64(stateTokens))/4 +
		c.Map.Options*n/8
	return min(most, max(least, t))
}

// score returns the logits of a question's options.
func (v *Von) score(ctx context.Context, q VonPrompt) ([]float32, error) {
	m := v.m
	d := m.b
	h := m.von
	n := len(q.MaskPositions)
	x := d.New(n, m.cfg.Hidden)
	if v.calibration.Independent {
		if err := v.encodeApart(ctx, q); err != nil {
			return nil, err
		}
		m.Final.Apply(d, m.work.X, m.work.X, len(q.Tokens))
		d.Gather(x, m.work.X, q.MaskPositions)
	} else {
		batch := model.NewRaggedBatch(m.Spec(), [][]int32{q.Tokens})
		batch.ReadRows = q.MaskPositions
		marginals, err := v.headlessModel.Forward(ctx, batch)
		if err != nil {
			return nil, err
		}
		states, _, err := marginals.(model.HiddenStates).Hidden(q.MaskPositions)
		if err != nil {
			return nil, err
		}
		d.Write(x, 0, states)
	}

	inner := d.New(n, h.Dense.Weight.Shape[0])
	score := d.New(n, 1)
	h.InputNorm.Apply(d, x, x, n)
	h.Dense.Apply(d, inner, x, n, backend.GELUErf) // [n, inner]
	h.Norm.Apply(d, inner, inner, n)
	h.Out.Apply(d, score, inner, n, backend.Identity) // [n, 1]
	logits := make([]float32, n)
	d.Read(logits, score, 0)
	return logits, nil
}

// vonPart is a part of a question whose rows attend together: what is outside of the options, or
// an option. Its keys and values, with those that it sees, lie at places from 0 on: those before
// the first mask, the part's own, and then that of the closing [SEP].
type vonPart struct {
	// sepPlace is the place of the closing [SEP].
	sepPlace int32

	// written are the rows whose keys and values the part adds, and rotated with the rotary of all
	// layers that see everything (0) and of local ones (1).
	written [2]attention.Rows

	// wide and near are the rows that attend, in the two kinds of layers.
	wide attention.Rows
	near attention.Rows
}

// encodeApart runs the trunk over a question whose options do not see each other: work.X, [tokens,
// hidden], before the last norm.
//
// Keys and values of what stands outside of the options are those of every option too, so options
// are computed one after another beside them, in each layer. The local layers' window counts
// positions. The closing [SEP] is far behind an option by its position and next to it by its place,
// so that only the rows within its window may see its place: those at the end of a part.
func (v *Von) encodeApart(ctx context.Context, q VonPrompt) error {
	m := v.m
	w := &m.work
	h := m.von
	c := &m.cfg
	n := len(q.Tokens)
	w.Prepare(m.b, n, c.Hidden, c.MLP)
	m.embedTokens(q.Tokens, nil)
	if h.k == nil || h.k.Shape()[2] < n {
		h.k = m.b.New(1, c.Heads, n, c.Hidden/c.Heads)
		h.v = m.b.New(1, c.Heads, n, c.Hidden/c.Heads)
	}
	places, parts := v.splitParts(q)
	sep := n - 1
	for i := range m.layers {
		if err := ctx.Err(); err != nil {
			return err
		}
		layer := &m.layers[i]
		m.computeBlock(i, n, func() int {
			for j := range parts {
				part := &parts[j]
				places[sep] = part.sepPlace
				written := &part.written[0]
				attending := &part.wide
				if layer.Window > 0 {
					written = &part.written[1]
					attending = &part.near
				}
				layer.SplitQKV(m.b, w.Q, h.k, h.v, w.QKV, written, n)
				layer.Attend(m.b, w.H, w.Q, h.k, h.v, attending, n)
			}
			return n
		})
	}
	return nil
}

// splitParts returns the parts of a question, and the places of its rows. That of the closing [SEP]
// differs from part to part.
func (v *Von) splitParts(q VonPrompt) (places []int32, parts []vonPart) {
	n := len(q.Tokens)
	first := int(q.MaskPositions[0]) // rows outside of the options, and their position behind them
	window := v.m.cfg.Window
	sepPosition := n - 1
	nearSep := max(sepPosition-window, 0) // the first position whose window has the closing [SEP]
	places = make([]int32, n)
	positions := make([]int32, n)
	for i := range first {
		places[i] = int32(i)
		positions[i] = int32(i)
	}
	positions[n-1] = int32(sepPosition)

	addPart := func(row, rows, place int) *vonPart {
		parts = append(parts, vonPart{sepPlace: int32(place + rows)})
		part := &parts[len(parts)-1]
		for i := range part.written {
			written := &part.written[i]
			written.Pos = places
			written.RotaryPos = positions
			addSegment(written, row, rows, place, 0)
			addSegment(written, n-1, 1, place+rows, 0)
		}
		end := place + rows // of the keys without that of the closing [SEP]
		far := min(max(nearSep-place, 0), rows)
		addSegment(&part.wide, row, rows, place, end+1)
		addSegment(&part.near, row, far, place, end)
		addSegment(&part.near, row+far, rows-far, place+far, end+1)
		return part
	}
	base := addPart(0, first, 0)
	addSegment(&base.wide, n-1, 1, first, first+1)
	// The closing [SEP] sees what is within its window by its position, and itself.
	addSegment(&base.near, n-1, 1, min(sepPosition, first+window), first+1)

	ends := append(slices.Clone(q.MaskPositions[1:]), int32(n-1))
	for i, start := range q.MaskPositions {
		rows := int(ends[i] - start)
		for j := range rows {
			places[int(start)+j] = int32(first + j)
			positions[int(start)+j] = int32(first + j)
		}
		addPart(int(start), rows, first)
	}
	return places, parts
}

// addSegment adds rows that follow each other, at places that do, and the number of keys that they
// see; none if there are no rows.
func addSegment(r *attention.Rows, row, rows, place, seen int) {
	if rows == 0 {
		return
	}
	r.Segs = append(r.Segs, backend.Segment{Row: row, Rows: rows, Pos: place})
	r.Seen = append(r.Seen, seen)
}
