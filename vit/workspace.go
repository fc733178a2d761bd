package vit

import (
	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
)

// workspace is the memory of a pass.
type workspace struct {
	enc, dec nn.Work
	hidden   *tensor.Dense  // [batch*(1+codes), decoder hidden]: what the last passes left
	last     *tensor.Dense  // [rows of one call to the head, decoder hidden]
	head     *tensor.Dense  // [rows of one call to the head, hidden]
	scratch  *kvcache.Cache // one encoder and one decoder layer, for passes that keep none

	rows attention.Rows
	at   []int32 // the pass's rows, sequence*(1+codes) + position
	ids  []int32 // their tokens

	classRows, seqs        []int32 // of a full pass: rows of the class tokens, and their sequences
	maskedRows, maskedSeqs []int32
}

func (w *workspace) prepare(b backend.Backend, c Config, rows, all int) {
	w.enc.Prepare(b, rows, c.Hidden, 4*c.Hidden)
	if c.DecHidden == c.Hidden { // the decoder begins when the encoder is done: only its stream is new
		x := nn.Grow(b, w.dec.X, rows, c.DecHidden)
		w.dec = w.enc
		w.dec.X = x
	} else {
		w.dec.Prepare(b, rows, c.DecHidden, 4*c.DecHidden)
	}
	w.hidden = nn.Grow(b, w.hidden, all, c.DecHidden)
}

func (w *workspace) prepareScratch(m *Model, batch int) {
	if w.scratch != nil && w.scratch.Batch >= batch {
		return
	}
	w.scratch = kvcache.New(m.b, batch, m.cfg.Grid*m.cfg.Grid+1, []kvcache.Layer{
		{Heads: m.enc.Heads, HeadDim: m.enc.HeadDim}, {Heads: m.dec.Heads, HeadDim: m.dec.HeadDim}})
	w.scratch.Aux = m.b.New(batch, m.cfg.DecHidden)
}

// collect fills in the tokens of the pass's rows and which of them are masked.
func (w *workspace) collect(c Config, b *model.Batch, partial bool) {
	mask := int32(c.Vocab - 1)
	w.ids, w.classRows, w.seqs = w.ids[:0], w.classRows[:0], w.seqs[:0]
	w.maskedRows, w.maskedSeqs = w.maskedRows[:0], w.maskedSeqs[:0]
	for _, seg := range w.rows.Segs {
		if !partial {
			w.classRows, w.seqs = append(w.classRows, int32(seg.Row)), append(w.seqs, int32(seg.Seq))
		}
		for r := seg.Row; r < seg.Row+seg.Rows; r++ {
			id := int32(c.Codebook + classToken)
			if p := int(w.rows.Pos[r]); p > 0 {
				id = b.Tokens[int(w.at[r])/(b.Length+1)*b.Length+p-1]
			}
			w.ids = append(w.ids, id)
			if id == mask {
				w.maskedRows, w.maskedSeqs = append(w.maskedRows, int32(r)), append(w.maskedSeqs, int32(seg.Seq))
			}
		}
	}
}

// keys returns the tensors that take layer i's keys and values.
func (w *workspace) keys(c Config, b *model.Batch, i int) (k, v *tensor.Dense) {
	if b.Cache != nil {
		return b.Cache.K[i], b.Cache.V[i]
	}
	if i < c.Depth {
		return w.scratch.K[0], w.scratch.V[0]
	}
	return w.scratch.K[1], w.scratch.V[1]
}

// pad is what the decoder sees at masked positions, [batch, decoder hidden].
func (w *workspace) pad(b *model.Batch) *tensor.Dense {
	if b.Cache != nil {
		return b.Cache.Aux
	}
	return w.scratch.Aux
}
