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
	inputSide      = 299  // of the network's input, in pixels
	publishedWidth = 2048 // published width of the pooled features
	// Classes is the number of logits.
	Classes = 1008
)

// unusedTensors are tensors that inference does not need; the paper's scores leave out the bias.
var unusedTensors = []string{"*.num_batches_tracked", "fc.bias"}

// layer is a convolution as published: its name in its block, its channels, and its windows.
type layer struct {
	name   string
	out    int // channels
	height int
	width  int
	stride int // 0 means 1

	// noPadding is set for all layers of stride 2 and for two others; the rest keep the size.
	noPadding bool
}

// pooling is the pooling that a branch begins with.
type pooling int

const (
	unpooled pooling = iota
	mean             // of windows, keeping the size
	maximum          // their maximum, keeping the size
	halve            // the maximum at stride 2
)

// branch is a part of a block: a pool or none, and a chain of layers. With fork the last two layers
// read the same and write side by side.
type branch struct {
	pool   pooling
	fork   bool
	layers []layer
	convs  []*conv // of the layers
}

// block is branches that read the same and write side by side.
type block struct {
	name     string
	branches []branch
	channels int // that they write together
}

// chain returns a branch of layers.
func chain(layers ...layer) branch { return branch{layers: layers} }

// pointwise is a convolution of single pixels.
func pointwise(name string, out int) layer {
	return layer{
		name:   name,
		out:    out,
		height: 1,
		width:  1,
	}
}

// wide7 is a convolution of 7 pixels in a row.
func wide7(name string, out int) layer {
	return layer{
		name:   name,
		out:    out,
		height: 1,
		width:  7,
	}
}

// tall7 is a convolution of 7 pixels in a column.
func tall7(name string, out int) layer {
	return layer{
		name:   name,
		out:    out,
		height: 7,
		width:  1,
	}
}

// square is a layer with windows of side x side.
func square(name string, out, side int) layer {
	return layer{name: name, out: out, height: side, width: side}
}

// halving is a layer with windows of 3x3 at stride 2.
func halving(name string, out int) layer {
	return layer{name: name, out: out, height: 3, width: 3, stride: 2, noPadding: true}
}

// blockA has branches with windows of 1, of 5, and of 3 twice, and one of means, of `pooled`
// channels.
func blockA(name string, pooled int) block {
	return block{name: name, branches: []branch{
		chain(pointwise("branch1x1", 64)),
		chain(pointwise("branch5x5_1", 48), square("branch5x5_2", 64, 5)),
		chain(pointwise("branch3x3dbl_1", 64), square("branch3x3dbl_2", 96, 3),
			square("branch3x3dbl_3", 96, 3)),
		{pool: mean, layers: []layer{pointwise("branch_pool", pooled)}}}}
}

// blockC has windows of 7 x 7 pixels, once and twice, each as a row and a column: 14 weights in
// place of 49.
func blockC(name string, mid int) block {
	return block{name: name, branches: []branch{
		chain(pointwise("branch1x1", 192)),
		chain(pointwise("branch7x7_1", mid), wide7("branch7x7_2", mid), tall7("branch7x7_3", 192)),
		chain(pointwise("branch7x7dbl_1", mid), tall7("branch7x7dbl_2", mid), wide7("branch7x7dbl_3",
			mid),
			tall7("branch7x7dbl_4", mid), wide7("branch7x7dbl_5", 192)),
		{pool: mean, layers: []layer{pointwise("branch_pool", 192)}}}}
}

// blockE has two branches that end in a row and a column of 3 pixels side by side.
func blockE(name string, pool pooling) block {
	return block{name: name, branches: []branch{
		chain(pointwise("branch1x1", 320)),
		{fork: true, layers: []layer{pointwise("branch3x3_1", 384),
			{name: "branch3x3_2a", out: 384, height: 1, width: 3},
			{name: "branch3x3_2b", out: 384, height: 3, width: 1}}},
		{fork: true, layers: []layer{pointwise("branch3x3dbl_1", 448), square("branch3x3dbl_2", 384, 3),
			{name: "branch3x3dbl_3a", out: 384, height: 1, width: 3},
			{name: "branch3x3dbl_3b", out: 384, height: 3, width: 1}}},
		{pool: pool, layers: []layer{pointwise("branch_pool", 192)}}}}
}

// publishedBlocks returns the network's blocks.
func publishedBlocks() []block {
	return []block{
		{branches: []branch{chain(halving("Conv2d_1a_3x3", 32),
			layer{name: "Conv2d_2a_3x3", out: 32, height: 3, width: 3, noPadding: true},
			square("Conv2d_2b_3x3", 64, 3))}},
		{branches: []branch{{pool: halve}}},
		{branches: []branch{chain(pointwise("Conv2d_3b_1x1", 80),
			layer{name: "Conv2d_4a_3x3", out: 192, height: 3, width: 3, noPadding: true})}},
		{branches: []branch{{pool: halve}}},
		blockA("Mixed_5b.", 32), blockA("Mixed_5c.", 64), blockA("Mixed_5d.", 64),
		{name: "Mixed_6a.", branches: []branch{chain(halving("branch3x3", 384)),
			chain(pointwise("branch3x3dbl_1", 64), square("branch3x3dbl_2", 96, 3),
				halving("branch3x3dbl_3", 96)),
			{pool: halve}}},
		blockC("Mixed_6b.", 128), blockC("Mixed_6c.", 160), blockC("Mixed_6d.", 160),
		blockC("Mixed_6e.", 192),
		{name: "Mixed_7a.", branches: []branch{
			chain(pointwise("branch3x3_1", 192), halving("branch3x3_2", 320)),
			chain(pointwise("branch7x7x3_1", 192), wide7("branch7x7x3_2", 192), tall7("branch7x7x3_3", 192),
				halving("branch7x7x3_4", 192)),
			{pool: halve}}},
		blockE("Mixed_7b.", mean), blockE("Mixed_7c.", maximum),
	}
}

// Model is the network on a backend. It owns its working memory: one call at a time.
type Model struct {
	Convs map[string]*conv `weight:""`
	FC    nn.Linear        `weight:"fc"`

	blocks []block
	thin   int
	device backend.Backend
	work   workspace
}

// New returns the network without weights. thin, 1 as published, divides all widths except the
// input's 3 and the classes: 1, 2, 4, 8 or 16. Tests use thin ones.
func New(thin int) *Model {
	m := &Model{
		Convs:  map[string]*conv{},
		FC:     nn.NewLinearNoBias(publishedWidth/thin, Classes),
		blocks: publishedBlocks(),
		thin:   thin,
	}
	blockIn := 3 // channels that a block reads
	for i := range m.blocks {
		k := &m.blocks[i]
		for j := range k.branches {
			b := &k.branches[j]
			in := blockIn
			for n, l := range b.layers {
				c := newConv(l.out/thin, in, l)
				m.Convs[k.name+l.name] = c
				b.convs = append(b.convs, c)
				if n < b.innerLayers() {
					in = c.outChannels()
				} else {
					k.channels += c.outChannels()
				}
			}
			if b.pool == halve {
				k.channels += blockIn
			}
		}
		blockIn = k.channels
	}
	return m
}

// innerLayers returns the number of layers whose outputs only other layers of the branch read.
func (r *branch) innerLayers() int {
	if r.fork {
		return len(r.layers) - 2
	}
	return len(r.layers) - 1
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
	if err := weights.Bind(m, set, weights.BindOptions{Ignore: unusedTensors}); err != nil {
		return nil, err
	}
	m.device = o.Backend
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	for _, k := range m.blocks {
		for _, r := range k.branches {
			for _, c := range r.convs {
				c.loadWeights(l)
			}
		}
	}
	m.FC.Load(l)
	return m, l.Err()
}

// Width returns the number of features, 2048 as published.
func (m *Model) Width() int { return publishedWidth / m.thin }

// runPass runs the network over the images in m.work.x and leaves features and logits there.
func (m *Model) runPass() {
	w := &m.work
	for i := range m.blocks {
		w.runBlock(m.device, &m.blocks[i])
	}
	m.device.Pool(w.features, w.x.data,
		backend.ConvShape{
			Batch:  w.batch,
			Height: w.x.height,
			Width:  w.x.width,
			In:     w.x.channels,
			Out:    w.x.channels,
			KH:     w.x.height,
			KW:     w.x.width,
		}, backend.Mean)
	m.FC.Apply(m.device, w.logits, w.features, w.batch, backend.Identity)
}

// runBlock replaces x by the output of a block, whose branches write side by side into the first
// spare tensor; the others are used between the layers of a branch.
func (w *workspace) runBlock(b backend.Backend, k *block) {
	var out frame
	offset := 0 // channel where the next branch writes
	for _, branch := range k.branches {
		x := w.x
		switch branch.pool {
		case mean:
			x = poolWindows(b, w.spare[1], x, w.batch, 1, 1, x.channels, 0, backend.Mean)
		case maximum:
			x = poolWindows(b, w.spare[1], x, w.batch, 1, 1, x.channels, 0, backend.Max)
		case halve:
			out = poolWindows(b, w.spare[0], x, w.batch, 2, 0, k.channels, offset, backend.Max)
			offset += x.channels
		}
		for i, c := range branch.convs {
			if i >= branch.innerLayers() {
				out = c.apply(b, w.spare[0], x, w.batch, k.channels, offset)
				offset += c.outChannels()
				continue
			}
			dst := w.spare[1]
			if x.data == dst {
				dst = w.spare[2]
			}
			x = c.apply(b, dst, x, w.batch, c.outChannels(), 0)
		}
	}
	w.spare[0] = w.x.data
	w.x = out
}

// workspace is the memory of a pass: four activations, of which x is a block's input.
type workspace struct {
	batch    int // images of the current pass
	capacity int // images that the tensors hold
	x        frame
	spare    [3]*tensor.Dense
	features *tensor.Dense // [batch, width]
	logits   *tensor.Dense // [batch, classes]
}
