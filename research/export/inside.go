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

// insides are all of them.
var insides = []string{string(Hidden), string(Attention), string(KV)}

// ParseQuantities reads a list such as "hidden,kv".
func ParseQuantities(text string) (list []Quantity, err error) {
	for name := range strings.SplitSeq(text, ",") {
		switch in := Quantity(name); in {
		case Hidden, Attention, KV:
			list = append(list, in)
		default:
			return nil, &param.Error{Name: "with", Found: param.Quote(name), Want: param.JoinOr(insides)}
		}
	}
	return list, nil
}

// maxInside is the most memory, in bytes, for these tensors.
const maxInside = 4 << 30

// inside returns what a network computes for each sequence of a batch, one sequence per pass.
func inside(ctx context.Context, m *unmask.Model, b *model.Batch,
	with []Quantity) (_ []weights.Tensor, err error) {
	defer backend.Recover(&err)
	if len(with) == 0 {
		return nil, nil
	}
	o := &observer{b: m.Backend, batch: b.Size, tensors: map[string]*observed{}}
	for _, in := range with {
		o.hidden, o.attention, o.kv = o.hidden || in == Hidden, o.attention || in == Attention,
			o.kv || in == KV
	}
	for i := range b.Size {
		one := alone(m, b.Tokens[i*b.Length:][:b.Length])
		one.Observer = o
		if b.Conditions != nil {
			one.Conditions = b.Conditions[i : i+1]
		}
		o.sequence = i
		if _, err := m.Denoiser.Forward(ctx, one); err != nil {
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
		list = append(list, weights.Tensor{Name: name, DType: weights.F32, Shape: t.shape,
			Data: bytesOf(t.values)})
	}
	return list, nil
}

// observer is a model.Observer that copies what it is shown, one sequence after the other.
type observer struct {
	b                     backend.Backend
	hidden, attention, kv bool
	batch, sequence       int
	names                 []string
	tensors               map[string]*observed
	bytes                 int64
	err                   error // the first error; later calls do nothing
}

// observed is one tensor for all sequences.
type observed struct {
	shape  []int
	values []float32
}

// of returns the sequence's part of a tensor with this shape, initially NaN; nil after an error.
func (o *observer) of(name string, shape ...int) []float32 {
	n := 1
	for _, s := range shape {
		n *= s
	}
	t := o.tensors[name]
	if t == nil && o.err == nil {
		if o.bytes += 4 * int64(o.batch) * int64(n); o.bytes > maxInside {
			o.err = fmt.Errorf("%s and what comes before it are %.1f GB, want at most %.1f: give fewer "+
				"sequences or positions", name, float64(o.bytes)/1e9, float64(maxInside)/1e9)
			return nil
		}
		t = &observed{append([]int{o.batch}, shape...),
			slices.Repeat([]float32{float32(math.NaN())}, o.batch*n)}
		o.tensors[name], o.names = t, append(o.names, name)
	}
	if o.err != nil {
		return nil
	}
	return t.values[o.sequence*n:][:n]
}

// Hidden implements model.Observer.
func (o *observer) Hidden(block int, p *model.Pass, x *tensor.Dense) {
	if !o.hidden {
		return
	}
	width := backend.Width(x)
	dst := o.of(fmt.Sprint("hidden.", block), p.Keys, width)
	if dst == nil {
		return
	}
	rows := make([]float32, p.Len()*width)
	o.b.Read(rows, x, 0)
	for i, at := range p.ResultRows {
		copy(dst[int(at)*width:][:width], rows[i*width:])
	}
}

// Attention implements model.Observer.
func (o *observer) Attention(block int, p *model.Pass, q, k, v *tensor.Dense, h backend.Heads) {
	n := p.Keys
	at := model.Indexes(0, n) // the row of each place among the keys
	for i, row := range p.ResultRows {
		at[p.Pos[i]] = int(row)
	}
	heads := func(t *tensor.Dense) []float32 { // [kv, n, headDim] of the sequence, by rows
		out, places := make([]float32, h.KVHeads()*n*h.HeadDim), make([]float32, n*h.HeadDim)
		length := t.Shape()[2]
		for j := range h.KVHeads() {
			o.b.Read(places, t, (p.Segs[0].Seq*h.KVHeads()+j)*length)
			for place, row := range at {
				copy(out[(j*n+row)*h.HeadDim:][:h.HeadDim], places[place*h.HeadDim:])
			}
		}
		return out
	}
	var keys []float32
	if o.kv || o.attention {
		keys = heads(k)
	}
	if o.kv {
		copy(o.of(fmt.Sprint("keys.", block), h.KVHeads(), n, h.HeadDim), keys)
		copy(o.of(fmt.Sprint("values.", block), h.KVHeads(), n, h.HeadDim), heads(v))
	}
	if !o.attention {
		return
	}
	dst := o.of(fmt.Sprint("attention.", block), h.Heads, n, n)
	if dst == nil {
		return
	}
	queries := make([]float32, p.Len()*h.Heads*h.HeadDim)
	o.b.Read(queries, q, 0)
	group := h.Heads / h.KVHeads()
	for j := range h.Heads {
		key := keys[j/group*n*h.HeadDim:][:n*h.HeadDim]
		for i, row := range p.ResultRows {
			pos := int(p.Pos[i])
			softmaxOf(dst[(j*n+int(row))*n:][:n], queries[(i*h.Heads+j)*h.HeadDim:][:h.HeadDim], key,
				at[h.FirstKey(pos):h.EndKey(pos)])
		}
	}
}

// softmaxOf computes dst = softmax(q k^T / sqrt(headDim)) over the seen rows of the keys
// [len(dst), headDim]; the others are 0.
func softmaxOf(dst, q, keys []float32, seen []int) {
	scale, top := 1/math.Sqrt(float64(len(q))), math.Inf(-1)
	logits := make([]float64, len(seen))
	for t, row := range seen {
		sum := 0.0
		for c, x := range q {
			sum += float64(x) * float64(keys[row*len(q)+c])
		}
		logits[t] = sum * scale
		top = max(top, logits[t])
	}
	sum := 0.0
	for t, l := range logits {
		logits[t] = math.Exp(l - top)
		sum += logits[t]
	}
	clear(dst)
	for t, e := range logits {
		dst[seen[t]] = float32(e / sum)
	}
}
