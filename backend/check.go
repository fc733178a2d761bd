package backend

import (
	"fmt"

	"gorgonia.org/tensor"
)

// These checks run on every device before a kernel. They panic with the kernel's name and the
// shapes, and do not allocate if nothing is wrong.

// Width returns t's last dimension.
func Width(t *tensor.Dense) int {
	s := t.Shape()
	if len(s) == 0 {
		return 1
	}
	return s[len(s)-1]
}

// Rows returns the number of rows of Width(t) in t.
func Rows(t *tensor.Dense) int {
	n := 1
	for _, d := range t.Shape()[:max(t.Dims()-1, 0)] {
		n *= d
	}
	return n
}

// HeadScale returns h.Scale, or 1 if it is 0.
func HeadScale(h Head) float32 {
	if h.Scale == 0 {
		return 1
	}
	return h.Scale
}

// ConvTarget returns the number of channels of a pixel in dst, and the first that is written.
func ConvTarget(s ConvShape) (stride, offset int) {
	if s.DstStride == 0 {
		return s.Out, s.DstOffset
	}
	return s.DstStride, s.DstOffset
}

// misuse panics with a kernel's name and what is wrong with its arguments.
func misuse(kernel, format string, args ...any) {
	panic(kernel + ": " + fmt.Sprintf(format, args...))
}

// checkRows checks that t has at least `rows` rows of `width` values.
func checkRows(kernel, name string, t *tensor.Dense, rows, width int) {
	if rows < 0 || Rows(t) < rows || Width(t) != width {
		misuse(kernel, "%s is %v, need [>=%d, %d]", name, t.Shape(), rows, width)
	}
}

// checkVector checks that t, unless nil, has n values.
func checkVector(kernel, name string, t *tensor.Dense, n int) {
	if t != nil && t.DataSize() != n {
		misuse(kernel, "%s is %v, need [%d]", name, t.Shape(), n)
	}
}

// CheckRowCount checks that x has at least `rows` rows.
func CheckRowCount(kernel string, x *tensor.Dense, rows int) {
	checkRows(kernel, "x", x, rows, Width(x))
}

// CheckCopy checks a copy of n values to or from row `row` of t.
func CheckCopy(kernel string, t *tensor.Dense, row, n int) {
	if row < 0 || row*Width(t)+n > t.DataSize() {
		misuse(kernel, "row %d and %d values, tensor is %v", row, n, t.Shape())
	}
}

// CheckRows checks a copy of the rows `indices` of src to the first rows of dst.
func CheckRows(kernel string, dst, src *tensor.Dense, indices []int32) {
	checkRows(kernel, "tensor", dst, len(indices), Width(src))
	rows := Rows(src)
	for i, r := range indices {
		if r < 0 || int(r) >= rows {
			misuse(kernel, "index %d is row %d of %v", i, r, src.Shape())
		}
	}
}

// CheckScaled checks the arguments of AddScaled.
func CheckScaled(dst, src *tensor.Dense, from []int32, scale []float32) {
	CheckRows("AddScaled", dst, src, from)
	if len(scale) != len(from) {
		misuse("AddScaled", "%d scales for %d rows", len(scale), len(from))
	}
}

// CheckLinear checks the arguments of Linear.
func CheckLinear(dst, x *tensor.Dense, rows int, w Matrix, e Epilogue) {
	checkRows("Linear", "dst", dst, rows, w.Out())
	checkRows("Linear", "x", x, rows, w.In())
	checkVector("Linear", "Bias", e.Bias, w.Out())
	if e.Times == nil {
		return
	}
	checkRows("Linear", "Times", e.Times, rows, w.Out())
	if e.Add && e.Times == dst {
		misuse("Linear", "Times is dst, which is added to")
	}
}

// CheckLayerNorm checks the arguments of LayerNorm.
func CheckLayerNorm(dst, x *tensor.Dense, rows int, n Norm) {
	checkRows("LayerNorm", "dst", dst, rows, Width(x))
	checkRows("LayerNorm", "x", x, rows, Width(x))
	checkVector("LayerNorm", "Scale", n.Scale, Width(x))
	checkVector("LayerNorm", "Shift", n.Shift, Width(x))
}

// CheckRMSNorm checks the arguments of RMSNorm.
func CheckRMSNorm(dst, x *tensor.Dense, rows int, n Norm) {
	checkRows("RMSNorm", "dst", dst, rows, Width(x))
	checkRows("RMSNorm", "x", x, rows, Width(x))
	checkScale("RMSNorm", n, Width(x))
}

// CheckNormHeads checks the arguments of NormHeads.
func CheckNormHeads(qkv *tensor.Dense, rows int, h Heads, q, k Norm) {
	checkGroups("NormHeads", h)
	checkRows("NormHeads", "qkv", qkv, rows, (h.Heads+2*h.KVHeads())*h.HeadDim)
	checkScale("NormHeads", q, h.HeadDim)
	checkScale("NormHeads", k, h.HeadDim)
}

// checkScale checks an RMS norm of `width` values.
func checkScale(kernel string, n Norm, width int) {
	checkVector(kernel, "Scale", n.Scale, width)
	if n.Shift != nil {
		misuse(kernel, "Shift is %v, an RMS norm has none", n.Shift.Shape())
	}
}

// checkGroups checks that query heads share key heads evenly and that blocks are powers of two,
// which EndKey relies on.
func checkGroups(kernel string, h Heads) {
	if h.Heads < 1 || h.HeadDim < 1 || h.KV < 0 || h.Heads%h.KVHeads() != 0 || h.Block < 0 ||
		h.Block&(h.Block-1) != 0 {
		misuse(kernel, "%d heads of %d, %d for keys and values, blocks of %d", h.Heads, h.HeadDim, h.KV,
			h.Block)
	}
}

// CheckGroupNorm checks the arguments of GroupNorm.
func CheckGroupNorm(scale, shift, x *tensor.Dense, batch, pixels, channels, groups int, n Norm) {
	const kernel = "GroupNorm"
	if batch < 0 || pixels < 1 || groups < 1 || channels < 1 || channels%groups != 0 {
		misuse(kernel, "%d images of %d pixels, %d channels, %d groups", batch, pixels, channels, groups)
	}
	if x.DataSize() < batch*pixels*channels {
		misuse(kernel, "x is %v, need [%d, %d, %d]", x.Shape(), batch, pixels, channels)
	}
	checkRows(kernel, "scale", scale, batch, channels)
	checkRows(kernel, "shift", shift, batch, channels)
	checkVector(kernel, "Scale", n.Scale, channels)
	checkVector(kernel, "Shift", n.Shift, channels)
}

// checkSegments checks that segments lie within the rows of t and name sequences of the batch.
func checkSegments(kernel string, t *tensor.Dense, batch int, segs []Segment) {
	rows := Rows(t)
	for i, s := range segs {
		if s.Rows < 0 || s.Row < 0 || s.Row+s.Rows > rows || s.Seq < 0 || s.Seq >= batch || s.Pos < 0 {
			misuse(kernel, "segment %d is %+v, of %d sequences and %v", i, s, batch, t.Shape())
		}
	}
}

// CheckSegmentRows checks that x has the rows of segs, and perSequence a row for each sequence.
func CheckSegmentRows(kernel string, x, perSequence *tensor.Dense, segs []Segment) {
	checkRows(kernel, "row of a sequence", perSequence, 0, Width(x))
	checkSegments(kernel, x, Rows(perSequence), segs)
}

// checkHeads checks queries, keys and values, and returns the length of the sequences.
func checkHeads(kernel string, q, k, v *tensor.Dense, segs []Segment, h Heads) (length int) {
	checkGroups(kernel, h)
	s := k.Shape()
	if len(s) != 4 || s[1] != h.KVHeads() || s[3] != h.HeadDim || !s.Eq(v.Shape()) {
		misuse(kernel, "k is %v and v %v, need [batch, %d, length, %d]", s, v.Shape(), h.KVHeads(),
			h.HeadDim)
	}
	checkRows(kernel, "q", q, 0, h.Heads*h.HeadDim)
	checkSegments(kernel, q, s[0], segs)
	return s[2]
}

// CheckSplitHeads checks the arguments of SplitHeads.
func CheckSplitHeads(q, k, v, qkv *tensor.Dense, segs []Segment, pos []int32, h Heads, r *Rotary) {
	const kernel = "SplitHeads"
	length := checkHeads(kernel, q, k, v, segs, h)
	checkRows(kernel, "qkv", qkv, 0, (h.Heads+2*h.KVHeads())*h.HeadDim)
	checkSegments(kernel, qkv, k.Shape()[0], segs)
	if r != nil {
		half := Width(r.Cos)
		if 2*half > h.HeadDim {
			misuse(kernel, "Cos is %v, a head has %d numbers", r.Cos.Shape(), h.HeadDim)
		}
		checkRows(kernel, "Sin", r.Sin, Rows(r.Cos), half)
		length = min(length, Rows(r.Cos))
	}
	for _, s := range segs {
		for i := s.Row; i < s.Row+s.Rows; i++ {
			if i >= len(pos) || pos[i] < 0 || int(pos[i]) >= length {
				misuse(kernel, "row %d, %d positions, length %d", i, len(pos), length)
			}
		}
	}
}

// CheckAttention checks the arguments of Attention.
func CheckAttention(dst, q, k, v *tensor.Dense, segs []Segment, h Heads) {
	const kernel = "Attention"
	length := checkHeads(kernel, q, k, v, segs, h)
	checkRows(kernel, "dst", dst, 0, h.Heads*h.HeadDim)
	checkSegments(kernel, dst, k.Shape()[0], segs)
	if h.Keys < 1 || h.Keys > length {
		misuse(kernel, "%d keys of k %v", h.Keys, k.Shape())
	}
	if h.Window < 0 || h.Window > 0 && h.Causal {
		misuse(kernel, "a window of %d positions, causal %v", h.Window, h.Causal)
	}
}

// CheckHead checks x, rows and the head.
func CheckHead(kernel string, x *tensor.Dense, rows int, h Head) {
	checkRows(kernel, "x", x, rows, h.W.In())
	checkOutcomes(kernel, h)
}

// checkOutcomes checks a head's own fields.
func checkOutcomes(kernel string, h Head) {
	checkVector(kernel, "Bias", h.Bias, h.W.Out())
	if h.Outcomes < 1 || h.Outcomes > h.W.Out() {
		misuse(kernel, "%d outcomes of [%d, %d] weights", h.Outcomes, h.W.Out(), h.W.In())
	}
}

// checkResult checks that a result has a value for each row, or none at all.
func checkResult(kernel, name string, n, rows int) {
	if n != 0 && n < rows {
		misuse(kernel, "%s has %d values, need %d", name, n, rows)
	}
}

// checkExponent checks that v is finite and not negative: v-v is NaN for the others.
func checkExponent(kernel, name string, v float64) {
	if !(v >= 0 && v-v == 0) {
		misuse(kernel, "%s is %v, need a finite number from 0", name, v)
	}
}

// CheckHeadStats checks the arguments of HeadStats.
func CheckHeadStats(x *tensor.Dense, rows int, h Head, s *HeadStats) {
	const kernel = "HeadStats"
	CheckHead(kernel, x, rows, h)
	checkExponent(kernel, "Beta", s.Beta)
	checkResult(kernel, "LogMoment", len(s.LogMoment), rows)
	checkResult(kernel, "Entropy", len(s.Entropy), rows)
	checkResult(kernel, "P1", len(s.P1), rows)
	checkResult(kernel, "P2", len(s.P2), rows)
	checkResult(kernel, "Arg", len(s.Arg), rows)
	checkResult(kernel, "LogSum", len(s.LogSum), rows)
}

// CheckHeadSample checks the arguments of HeadSample.
func CheckHeadSample(x *tensor.Dense, rows int, h Head, d *HeadDraw) {
	const kernel = "HeadSample"
	CheckHead(kernel, x, rows, h)
	checkExponent(kernel, "Power", d.Power)
	if len(d.Uniform) < rows || len(d.Token) < rows {
		misuse(kernel, "%d uniforms and %d tokens, need %d", len(d.Uniform), len(d.Token), rows)
	}
	checkResult(kernel, "LogP", len(d.LogP), rows)
	for i, u := range d.Uniform[:rows] {
		if !(u >= 0 && u <= 1) {
			misuse(kernel, "uniform %d is %v", i, u)
		}
	}
}

// checkWindows checks the shape of a convolution or pooling that writes `out` channels, and that x
// and dst are large enough for it.
func checkWindows(kernel string, dst, x *tensor.Dense, s ConvShape, out int) {
	stride, offset := ConvTarget(s)
	if s.Batch < 0 || s.Height < 1 || s.Width < 1 || s.In < 1 || s.KH < 1 || s.KW < 1 ||
		s.Stride < 0 || s.PadH < 0 || s.PadW < 0 || s.OutHeight() < 1 || s.OutWidth() < 1 ||
		offset < 0 || offset+out > stride {
		misuse(kernel, "shape %+v", s)
	}
	if x.DataSize() < s.Batch*s.Height*s.Width*s.In ||
		dst.DataSize() < s.Batch*s.OutHeight()*s.OutWidth()*stride {
		misuse(kernel, "dst is %v and x %v for shape %+v", dst.Shape(), x.Shape(), s)
	}
}

// CheckConv checks the arguments of Conv.
func CheckConv(dst, x *tensor.Dense, s ConvShape, w Matrix, in ConvInput, e Epilogue) {
	const kernel = "Conv"
	checkWindows(kernel, dst, x, s, s.Out)
	checkFilter(kernel, s, w, s.KH*s.KW*s.In)
	checkInput(kernel, s, in, e)
}

// CheckConvDoubled checks the arguments of ConvDoubled.
func CheckConvDoubled(dst, x *tensor.Dense, s ConvShape, w *[4]Matrix, in ConvInput, e Epilogue) {
	const kernel = "ConvDoubled"
	if !s.Upsample || s.KH != 3 || s.KW != 3 || s.PadH != 1 || s.PadW != 1 || s.Stride > 1 {
		misuse(kernel, "shape %+v, want Upsample, 3x3 windows, padding 1 and stride 1", s)
	}
	checkWindows(kernel, dst, x, s, s.Out)
	for _, m := range w {
		checkFilter(kernel, s, m, 4*s.In)
	}
	checkInput(kernel, s, in, e)
}

// checkFilter checks the shape of a convolution's weights.
func checkFilter(kernel string, s ConvShape, w Matrix, in int) {
	if w.Out() != s.Out || w.In() != in {
		misuse(kernel, "weights [%d, %d] for shape %+v", w.Out(), w.In(), s)
	}
}

// checkInput checks the map of a convolution's input, and its epilogue.
func checkInput(kernel string, s ConvShape, in ConvInput, e Epilogue) {
	if (in.Scale == nil) != (in.Shift == nil) {
		misuse(kernel, "Scale and Shift go together")
	}
	if in.Scale != nil {
		checkRows(kernel, "Scale", in.Scale, s.Batch, s.In)
		checkRows(kernel, "Shift", in.Shift, s.Batch, s.In)
	}
	checkVector(kernel, "Bias", e.Bias, s.Out)
	if e.Times != nil {
		misuse(kernel, "Times is %v, want none: it is for Linear", e.Times.Shape())
	}
}

// CheckPool checks the arguments of Pool.
func CheckPool(dst, x *tensor.Dense, s ConvShape, kind PoolKind) {
	checkWindows("Pool", dst, x, s, s.In)
	if s.Out != s.In || s.PadH >= s.KH || s.PadW >= s.KW || kind > Max {
		misuse("Pool", "kind %d, shape %+v", kind, s)
	}
}
