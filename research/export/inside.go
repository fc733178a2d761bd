package export

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"unmask"
	"unmask/backend"
	"unmask/model"
	"unmask/param"
	"unmask/weights"
)

// Quantity is a quantity that a network computes on its way to the logits. B sequences of D
// positions have E+D rows: E before the positions (a class, for example) and one for each position.
// Blocks are counted from 0 over all stacks; MAGE's decoder follows its encoder. Rows that a
// network does not compute are NaN.
type Quantity string

const (
	// Hidden is the residual stream: hidden.I F32 [B,E+D,width] is the input of block I; hidden.0
	// are the embeddings, and hidden.N, for N blocks, is the output of the last.
	Hidden Quantity = "hidden"
	// Attention is attention.I F32 [B,heads,E+D,E+D] of block I: the weight that each row (third
	// dimension) gives to each row (fourth); sums over the last dimension are 1.
	Attention Quantity = "attention"
	// KV is keys.I and values.I F32 [B,heads,E+D,headDim] of block I; keys are rotated, as queries
	// are multiplied with them.
	KV Quantity = "kv"
)

// quantityNames are all of them, for errors.
var quantityNames = []string{string(Hidden), string(Attention), string(KV)}

// ParseQuantities reads a list such as "hidden,kv".
func ParseQuantities(text string) (list []Quantity, err error) {
	for name := range strings.SplitSeq(text, ",") {
		switch q := Quantity(name); q {
		case Hidden, Attention, KV:
			list = append(list, q)
		default:
			return nil, &param.Error{
				Name:  "with",
				Found: param.Quote(name),
				Want:  param.JoinOr(quantityNames),
			}
		}
	}
	return list, nil
}

// maxObserved is the most memory, in bytes, for these tensors.
const maxObserved = 4 << 30

// observeQuantities returns what a network computes for each sequence of a batch. Each sequence has
// a pass of its own, so that its rows have the same places whatever stands beside it.
func observeQuantities(ctx context.Context, m *unmask.Model, b *model.Batch,
	quantities []Quantity) (_ []weights.Tensor, err error) {
	defer backend.Recover(&err)
	if len(quantities) == 0 {
		return nil, nil
	}
	o := &observer{
		device:    m.Backend,
		hidden:    slices.Contains(quantities, Hidden),
		attention: slices.Contains(quantities, Attention),
		kv:        slices.Contains(quantities, KV),
		sequences: b.Size,
		tensors:   map[string]*observedTensor{},
	}
	for i := range b.Size {
		single := singleBatch(m, b.Tokens[i*b.Length:][:b.Length])
		single.Observer = o
		if b.Conditions != nil {
			single.Conditions = b.Conditions[i : i+1]
		}
		o.sequence = i
		if _, err := m.Denoiser.Forward(ctx, single); err != nil {
			return nil, err
		}
		if o.err != nil {
			return nil, o.err
		}
		if len(o.tensors) == 0 {
			return nil, fmt.Errorf("the model is a %s, want one that shows what it computes inside: sdtt, "+
				"llama, mage, titok or halton-maskgit", m.Info.Architecture)
		}
	}

	var list []weights.Tensor
	for _, name := range o.names {
		t := o.tensors[name]
		list = append(list, weights.Tensor{
			Name:  name,
			DType: weights.F32,
			Shape: t.shape,
			Data:  float32Bytes(t.values),
		})
	}
	return list, nil
}

// observer is a model.Observer that copies what it is shown, one sequence after the other.
type observer struct {
	device backend.Backend

	// hidden, attention and kv say which quantities are copied.
	hidden    bool
	attention bool
	kv        bool

	sequences int // of the batch
	sequence  int // that the current pass computes

	names   []string // of the tensors, in the order in which they were shown
	tensors map[string]*observedTensor
	bytes   int64 // of all tensors

	err error // the first error; later calls do nothing
}

// observedTensor is one tensor for all sequences.
type observedTensor struct {
	shape  []int
	values []float32
}

// sequencePart returns the sequence's part of a tensor with this shape, initially NaN; nil after an
// error. What a network does not compute stays NaN: a 0 would look like a result.
func (o *observer) sequencePart(name string, shape ...int) []float32 {
	if o.err != nil {
		return nil
	}
	n := 1
	for _, d := range shape {
		n *= d
	}
	t := o.tensors[name]
	if t == nil {
		o.bytes += 4 * int64(o.sequences) * int64(n)
		if o.bytes > maxObserved {
			o.err = fmt.Errorf("%s and what comes before it are %.1f GB, want at most %.1f: give fewer "+
				"sequences or positions", name, float64(o.bytes)/1e9, float64(maxObserved)/1e9)
			return nil
		}
		t = &observedTensor{
			shape:  append([]int{o.sequences}, shape...),
			values: slices.Repeat([]float32{float32(math.NaN())}, o.sequences*n),
		}
		o.tensors[name] = t
		o.names = append(o.names, name)
	}
	return t.values[o.sequence*n:][:n]
}

// check keeps an error for numbers of a tensor that are not finite. NaN in a file means that a row
// was not computed, so what was computed must not be NaN.
func (o *observer) check(name string, numbers []float32) {
	if err := model.CheckFinite("number", numbers); err != nil && o.err == nil {
		o.err = fmt.Errorf("%s: %w", name, err)
	}
}

// Hidden implements model.Observer.
func (o *observer) Hidden(block int, p *model.Pass, x *tensor.Dense) {
	if !o.hidden {
		return
	}
	width := backend.Width(x)
	dst := o.sequencePart(fmt.Sprint("hidden.", block), p.Keys, width)
	if dst == nil {
		return
	}
	values := make([]float32, p.Len()*width)
	o.device.Read(values, x, 0)
	o.check(fmt.Sprint("hidden.", block), values)
	for i, row := range p.ResultRows {
		copy(dst[int(row)*width:][:width], values[i*width:])
	}
}

// Attention implements model.Observer. Weights are computed here, from queries and keys: networks
// never hold them whole.
func (o *observer) Attention(block int, p *model.Pass, q, k, v *tensor.Dense, h backend.Heads) {
	if !o.kv && !o.attention {
		return
	}
	n := p.Keys
	rowByPlace := model.Indexes(0, n) // the row of each place among the keys
	for i, row := range p.ResultRows {
		rowByPlace[p.Pos[i]] = int(row)
	}

	keys := o.readHeads(k, p, h, rowByPlace)
	o.check(fmt.Sprint("keys.", block), keys)
	if o.kv {
		values := o.readHeads(v, p, h, rowByPlace)
		o.check(fmt.Sprint("values.", block), values)
		copy(o.sequencePart(fmt.Sprint("keys.", block), h.KVHeads(), n, h.HeadDim), keys)
		copy(o.sequencePart(fmt.Sprint("values.", block), h.KVHeads(), n, h.HeadDim), values)
	}
	if !o.attention {
		return
	}
	dst := o.sequencePart(fmt.Sprint("attention.", block), h.Heads, n, n)
	if dst == nil {
		return
	}
	queries := make([]float32, p.Len()*h.Heads*h.HeadDim)
	o.device.Read(queries, q, 0)
	o.check(fmt.Sprint("queries.", block), queries)
	queriesPerKey := h.Heads / h.KVHeads()
	for head := range h.Heads {
		headKeys := keys[head/queriesPerKey*n*h.HeadDim:][:n*h.HeadDim]
		for i, row := range p.ResultRows {
			pos := int(p.Pos[i])
			query := queries[(i*h.Heads+head)*h.HeadDim:][:h.HeadDim]
			visible := rowByPlace[h.FirstKey(pos):h.EndKey(pos)]
			softmaxRow(dst[(head*n+int(row))*n:][:n], query, headKeys, visible)
		}
	}
}

// readHeads returns the keys or values [kvHeads, n, headDim] of the sequence, by rows.
func (o *observer) readHeads(t *tensor.Dense, p *model.Pass, h backend.Heads,
	rowByPlace []int) []float32 {
	n := p.Keys
	heads := make([]float32, h.KVHeads()*n*h.HeadDim)
	places := make([]float32, n*h.HeadDim)
	length := t.Shape()[2]
	for head := range h.KVHeads() {
		o.device.Read(places, t, (p.Segs[0].Seq*h.KVHeads()+head)*length)
		for place, row := range rowByPlace {
			copy(heads[(head*n+row)*h.HeadDim:][:h.HeadDim], places[place*h.HeadDim:])
		}
	}
	return heads
}

// softmaxRow computes dst = softmax(q k^T / sqrt(headDim)) over the visible rows of the keys
// [len(dst), headDim]; the others are 0. It sums in float64, which the reference values do too.
func softmaxRow(dst, q, keys []float32, visible []int) {
	scale := 1 / math.Sqrt(float64(len(q)))
	largest := math.Inf(-1)
	logits := make([]float64, len(visible))
	for i, row := range visible {
		sum := 0.0
		for c, x := range q {
			sum += float64(x) * float64(keys[row*len(q)+c])
		}
		logits[i] = sum * scale
		largest = max(largest, logits[i])
	}
	sum := 0.0
	for i, logit := range logits {
		logits[i] = math.Exp(logit - largest)
		sum += logits[i]
	}
	clear(dst)
	for i, e := range logits {
		dst[visible[i]] = float32(e / sum)
	}
}
