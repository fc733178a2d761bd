// Package inception is the Inception-v3 of the Frechet Inception Distance and the Inception
// Score: TensorFlow's network of 2015 (Szegedy et al., "Rethinking the Inception architecture
// for computer vision", 2016; Heusel et al., 2017), as torch-fidelity has converted it.
//
// Checkpoint: pt_inception-2015-12-05-6726825d.pth, 1008 classes. It differs from torchvision's
// network in its pools: the mean ignores padding, and the last block takes a maximum.
package inception

import (
	"fmt"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

const (
	side     = 299  // of the network's input, in pixels
	features = 2048 // published width of the pooled features
	// Classes is the number of logits.
	Classes = 1008
)

// unused are tensors that inference does not need; the paper's scores leave out the bias.
var unused = []string{"*.num_batches_tracked", "fc.bias"}

type blockA struct {
	B1     conv `weight:"branch1x1"`
	B5a    conv `weight:"branch5x5_1"`
	B5b    conv `weight:"branch5x5_2"`
	B3a    conv `weight:"branch3x3dbl_1"`
	B3b    conv `weight:"branch3x3dbl_2"`
	B3c    conv `weight:"branch3x3dbl_3"`
	Pooled conv `weight:"branch_pool"`
}

type blockB struct {
	B3  conv `weight:"branch3x3"`
	B3a conv `weight:"branch3x3dbl_1"`
	B3b conv `weight:"branch3x3dbl_2"`
	B3c conv `weight:"branch3x3dbl_3"`
}

type blockC struct {
	B1     conv `weight:"branch1x1"`
	B7a    conv `weight:"branch7x7_1"`
	B7b    conv `weight:"branch7x7_2"`
	B7c    conv `weight:"branch7x7_3"`
	D7a    conv `weight:"branch7x7dbl_1"`
	D7b    conv `weight:"branch7x7dbl_2"`
	D7c    conv `weight:"branch7x7dbl_3"`
	D7d    conv `weight:"branch7x7dbl_4"`
	D7e    conv `weight:"branch7x7dbl_5"`
	Pooled conv `weight:"branch_pool"`
}

type blockD struct {
	B3a conv `weight:"branch3x3_1"`
	B3b conv `weight:"branch3x3_2"`
	B7a conv `weight:"branch7x7x3_1"`
	B7b conv `weight:"branch7x7x3_2"`
	B7c conv `weight:"branch7x7x3_3"`
	B7d conv `weight:"branch7x7x3_4"`
}

type blockE struct {
	B1     conv `weight:"branch1x1"`
	B3     conv `weight:"branch3x3_1"`
	B3w    conv `weight:"branch3x3_2a"`
	B3h    conv `weight:"branch3x3_2b"`
	D3a    conv `weight:"branch3x3dbl_1"`
	D3b    conv `weight:"branch3x3dbl_2"`
	D3w    conv `weight:"branch3x3dbl_3a"`
	D3h    conv `weight:"branch3x3dbl_3b"`
	Pooled conv `weight:"branch_pool"`
}

// Model is the network on a backend. It owns its working memory: one call at a time.
type Model struct {
	C1a conv      `weight:"Conv2d_1a_3x3"`
	C2a conv      `weight:"Conv2d_2a_3x3"`
	C2b conv      `weight:"Conv2d_2b_3x3"`
	C3b conv      `weight:"Conv2d_3b_1x1"`
	C4a conv      `weight:"Conv2d_4a_3x3"`
	M5b blockA    `weight:"Mixed_5b"`
	M5c blockA    `weight:"Mixed_5c"`
	M5d blockA    `weight:"Mixed_5d"`
	M6a blockB    `weight:"Mixed_6a"`
	M6b blockC    `weight:"Mixed_6b"`
	M6c blockC    `weight:"Mixed_6c"`
	M6d blockC    `weight:"Mixed_6d"`
	M6e blockC    `weight:"Mixed_6e"`
	M7a blockD    `weight:"Mixed_7a"`
	M7b blockE    `weight:"Mixed_7b"`
	M7c blockE    `weight:"Mixed_7c"`
	FC  nn.Linear `weight:"fc"`

	thin int
	b    backend.Backend
	work workspace
}

// New returns the network without weights. thin, 1 as published, divides all widths except the
// input's 3 and the classes: 1, 2, 4, 8 or 16.
func New(thin int) *Model {
	n := func(c int) int { return c / thin }
	a := func(in, pooled int) blockA {
		return blockA{
			B1:  newConv(n(64), n(in), 1, 1),
			B5a: newConv(n(48), n(in), 1, 1), B5b: newConv(n(64), n(48), 5, 5).pad(2, 2),
			B3a: newConv(n(64), n(in), 1, 1), B3b: newConv(n(96), n(64), 3, 3).pad(1, 1),
			B3c:    newConv(n(96), n(96), 3, 3).pad(1, 1),
			Pooled: newConv(n(pooled), n(in), 1, 1),
		}
	}
	wide := func(out, in int) conv { return newConv(n(out), n(in), 1, 7).pad(0, 3) }
	tall := func(out, in int) conv { return newConv(n(out), n(in), 7, 1).pad(3, 0) }
	c := func(mid int) blockC {
		return blockC{
			B1:  newConv(n(192), n(768), 1, 1),
			B7a: newConv(n(mid), n(768), 1, 1), B7b: wide(mid, mid), B7c: tall(192, mid),
			D7a: newConv(n(mid), n(768), 1, 1), D7b: tall(mid, mid), D7c: wide(mid, mid),
			D7d: tall(mid, mid), D7e: wide(192, mid),
			Pooled: newConv(n(192), n(768), 1, 1),
		}
	}
	e := func(in int) blockE {
		return blockE{
			B1: newConv(n(320), n(in), 1, 1),
			B3: newConv(n(384), n(in), 1, 1), B3w: newConv(n(384), n(384), 1, 3).pad(0, 1),
			B3h: newConv(n(384), n(384), 3, 1).pad(1, 0),
			D3a: newConv(n(448), n(in), 1, 1), D3b: newConv(n(384), n(448), 3, 3).pad(1, 1),
			D3w: newConv(n(384), n(384), 1, 3).pad(0, 1), D3h: newConv(n(384), n(384), 3, 1).pad(1, 0),
			Pooled: newConv(n(192), n(in), 1, 1),
		}
	}
	m := &Model{
		C1a: newConv(n(32), 3, 3, 3).by(2), C2a: newConv(n(32), n(32), 3, 3),
		C2b: newConv(n(64), n(32), 3, 3).pad(1, 1),
		C3b: newConv(n(80), n(64), 1, 1), C4a: newConv(n(192), n(80), 3, 3),
		M5b: a(192, 32), M5c: a(256, 64), M5d: a(288, 64),
		M6a: blockB{B3: newConv(n(384), n(288), 3, 3).by(2), B3a: newConv(n(64), n(288), 1, 1),
			B3b: newConv(n(96), n(64), 3, 3).pad(1, 1), B3c: newConv(n(96), n(96), 3, 3).by(2)},
		M6b: c(128), M6c: c(160), M6d: c(160), M6e: c(192),
		M7a: blockD{B3a: newConv(n(192), n(768), 1, 1), B3b: newConv(n(320), n(192), 3, 3).by(2),
			B7a: newConv(n(192), n(768), 1, 1), B7b: wide(192, 192), B7c: tall(192, 192),
			B7d: newConv(n(192), n(192), 3, 3).by(2)},
		M7b: e(1280), M7c: e(2048),
		FC:   nn.NewLinearNoBias(n(features), Classes),
		thin: thin,
	}
	return m
}

// Load loads the network from the tensors of its published file. It does not keep set.
func Load(set *weights.Set, o model.Options) (_ *Model, err error) {
	defer backend.Recover(&err)
	const first = "Conv2d_1a_3x3.conv.weight"
	t, ok := set.Get(first)
	if !ok {
		return nil, fmt.Errorf("tensor %q is missing: not the Inception-v3 of "+
			"pt_inception-2015-12-05-6726825d.pth", first)
	}
	if len(t.Shape) != 4 || t.Shape[0] < 2 || t.Shape[0] > 32 || 32%t.Shape[0] != 0 {
		return nil, fmt.Errorf("tensor %q has shape %v, want [32 3 3 3], or fewer by a power of two "+
			"from 2 on", first, t.Shape)
	}
	m := New(32 / t.Shape[0])
	if err := weights.Bind(m, set, weights.BindOptions{Ignore: unused}); err != nil {
		return nil, err
	}
	m.b = o.Backend
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	var failed error
	m.each(func(c *conv) {
		if err := c.load(l); err != nil && failed == nil {
			failed = err
		}
	})
	m.FC.Load(l)
	if failed != nil {
		return nil, failed
	}
	return m, l.Err()
}

// each visits all convolutions.
func (m *Model) each(visit func(*conv)) {
	list := []*conv{&m.C1a, &m.C2a, &m.C2b, &m.C3b, &m.C4a}
	for _, k := range []*blockA{&m.M5b, &m.M5c, &m.M5d} {
		list = append(list, &k.B1, &k.B5a, &k.B5b, &k.B3a, &k.B3b, &k.B3c, &k.Pooled)
	}
	list = append(list, &m.M6a.B3, &m.M6a.B3a, &m.M6a.B3b, &m.M6a.B3c)
	for _, k := range []*blockC{&m.M6b, &m.M6c, &m.M6d, &m.M6e} {
		list = append(list, &k.B1, &k.B7a, &k.B7b, &k.B7c, &k.D7a, &k.D7b, &k.D7c, &k.D7d, &k.D7e,
			&k.Pooled)
	}
	list = append(list, &m.M7a.B3a, &m.M7a.B3b, &m.M7a.B7a, &m.M7a.B7b, &m.M7a.B7c, &m.M7a.B7d)
	for _, k := range []*blockE{&m.M7b, &m.M7c} {
		list = append(list, &k.B1, &k.B3, &k.B3w, &k.B3h, &k.D3a, &k.D3b, &k.D3w, &k.D3h, &k.Pooled)
	}
	for _, c := range list {
		visit(c)
	}
}

// Width returns the number of features, 2048 as published.
func (m *Model) Width() int { return features / m.thin }

// pass runs the network over the images in m.work.x and leaves features and logits there. The
// branches of a block read x and write side by side into y; then the two are swapped.
func (m *Model) pass() {
	w := &m.work
	w.stem(m.b, &m.C1a)
	w.stem(m.b, &m.C2a)
	w.stem(m.b, &m.C2b)
	w.shrink(m.b)
	w.stem(m.b, &m.C3b)
	w.stem(m.b, &m.C4a)
	w.shrink(m.b)
	m.a(&m.M5b)
	m.a(&m.M5c)
	m.a(&m.M5d)
	m.down(&m.M6a)
	m.c(&m.M6b)
	m.c(&m.M6c)
	m.c(&m.M6d)
	m.c(&m.M6e)
	m.d(&m.M7a)
	m.e(&m.M7b, backend.Mean)
	m.e(&m.M7c, backend.Max)
	m.b.Pool(w.features, w.x.data,
		backend.ConvShape{Batch: w.batch, Height: w.x.height, Width: w.x.width,
			In: w.x.channels, Out: w.x.channels, KH: w.x.height, KW: w.x.width}, backend.Mean)
	m.FC.Apply(m.b, w.logits, w.features, w.batch, backend.Identity)
}

func (m *Model) a(k *blockA) {
	j := m.work.join(k.B1.out() + k.B5b.out() + k.B3c.out() + k.Pooled.out())
	j.branch(m.b, &k.B1)
	j.branch(m.b, &k.B5a, &k.B5b)
	j.branch(m.b, &k.B3a, &k.B3b, &k.B3c)
	j.pooled(m.b, backend.Mean, &k.Pooled)
	j.done()
}

func (m *Model) down(k *blockB) {
	j := m.work.join(k.B3.out() + k.B3c.out() + m.work.x.channels)
	j.branch(m.b, &k.B3)
	j.branch(m.b, &k.B3a, &k.B3b, &k.B3c)
	j.shrunk(m.b)
	j.done()
}

func (m *Model) c(k *blockC) {
	j := m.work.join(k.B1.out() + k.B7c.out() + k.D7e.out() + k.Pooled.out())
	j.branch(m.b, &k.B1)
	j.branch(m.b, &k.B7a, &k.B7b, &k.B7c)
	j.branch(m.b, &k.D7a, &k.D7b, &k.D7c, &k.D7d, &k.D7e)
	j.pooled(m.b, backend.Mean, &k.Pooled)
	j.done()
}

func (m *Model) d(k *blockD) {
	j := m.work.join(k.B3b.out() + k.B7d.out() + m.work.x.channels)
	j.branch(m.b, &k.B3a, &k.B3b)
	j.branch(m.b, &k.B7a, &k.B7b, &k.B7c, &k.B7d)
	j.shrunk(m.b)
	j.done()
}

func (m *Model) e(k *blockE, pool backend.PoolKind) {
	j := m.work.join(k.B1.out() + k.B3w.out() + k.B3h.out() + k.D3w.out() + k.D3h.out() +
		k.Pooled.out())
	j.branch(m.b, &k.B1)
	j.fork(m.b, &k.B3w, &k.B3h, &k.B3)
	j.fork(m.b, &k.D3w, &k.D3h, &k.D3a, &k.D3b)
	j.pooled(m.b, pool, &k.Pooled)
	j.done()
}

// workspace is the memory of a pass: four activations. x and y are a block's input and output; the
// others are used between the layers of a branch.
type workspace struct {
	batch, room      int
	x                frame
	spare            [3]*tensor.Dense
	features, logits *tensor.Dense // [batch, width], [batch, classes]
}
