package vit

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// workspace is the memory of a pass.
type workspace struct {
	enc, dec nn.Work
	head     *tensor.Dense // [rows of one call to the head, hidden]

	// ids are the ids of the pass's rows; at position 0 the class token's.
	ids []int32

	// openRows are the rows that are not masked, whose encoder output the decoder sees.
	openRows []int32

	// classRows are the rows of the class tokens in a full pass, and places the places of their
	// sequences in the cache.
	classRows, places []int32

	// maskedRows are the masked rows, and maskedPlaces the places of their sequences in the cache.
	maskedRows, maskedPlaces []int32
}

// resize makes room for a pass of `rows` rows. The decoder begins after the encoder ends, so if
// they have the same width, they share the large tensors.
func (w *workspace) resize(b backend.Backend, c Config, rows int) {
	w.enc.Prepare(b, rows, c.Hidden, 4*c.Hidden)
	if c.DecHidden != c.Hidden {
		w.dec.Prepare(b, rows, c.DecHidden, 4*c.DecHidden)
		return
	}
	for _, t := range []**tensor.Dense{&w.dec.X, &w.dec.H, &w.dec.Q} {
		*t = backend.Grow(b, *t, rows, c.DecHidden)
	}
	w.dec.QKV = w.enc.QKV
	w.dec.Inner = w.enc.Inner
}

// sortRows sets the ids of the pass's rows and finds which are masked.
func (w *workspace) sortRows(c Config, p *model.Pass) {
	mask := int32(c.Vocab - 1)
	w.ids = w.ids[:0]
	w.openRows = append(w.openRows[:0], 0)[:0] // never nil, which would keep all rows
	w.classRows = w.classRows[:0]
	w.places = w.places[:0]
	w.maskedRows = w.maskedRows[:0]
	w.maskedPlaces = w.maskedPlaces[:0]
	for i, seg := range p.Segs {
		class := c.classToken(p.Condition(i))
		for r := seg.Row; r < seg.Row+seg.Rows; r++ {
			id := p.Tokens[r]
			if id < 0 {
				id = class
				w.classRows = append(w.classRows, int32(r))
				w.places = append(w.places, int32(seg.Seq))
			}
			w.ids = append(w.ids, id)
			if id == mask {
				w.maskedRows = append(w.maskedRows, int32(r))
				w.maskedPlaces = append(w.maskedPlaces, int32(seg.Seq))
			} else {
				w.openRows = append(w.openRows, int32(r))
			}
		}
	}
}

// classToken returns the token at position 0: that of the class, which follows the codes, or that
// of no class.
func (c Config) classToken(condition *model.Condition) int32 {
	if len(c.ClassNames) == 0 || condition == nil || condition.Class == model.NoClass {
		return int32(c.Codebook + noClassOffset)
	}
	return int32(c.Codebook) + condition.Class
}
