//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// These kernels are for Llama's descendants: RMS norms, gated products, and key and value heads
// that several query heads share.
var (
	rmsNormKernel      = register("unmask_rms_norm")
	normHeadsKernel    = register("unmask_norm_heads")
	splitGroupedKernel = register("unmask_split_grouped")
	gateKernel         = register("unmask_gate")
	addScaledKernel    = register("unmask_add_scaled")
)

// RMSNorm computes dst = x/sqrt(mean(x^2)+eps)*scale by rows. dst may be x.
func (b *Backend) RMSNorm(dst, x *tensor.Dense, rows int, n backend.Norm) {
	backend.CheckRMSNorm(dst, x, rows, n)
	if rows == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(rmsNormKernel, grid{x: ceilDiv(rows, rowWarps)}, rowThreads, 0).
		tensor(x).tensor(n.Scale).int(rows).int(backend.Width(x)).float(n.Eps).result(dst, rows, true).
		end()
	keepAlive(dst, x, n)
}

// NormHeads is RMSNorm of each query head, with q, and each key head, with k, in place.
func (b *Backend) NormHeads(qkv *tensor.Dense, rows int, h backend.Heads, q, k backend.Norm) {
	backend.CheckNormHeads(qkv, rows, h, q, k)
	if rows == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(normHeadsKernel, grid{x: ceilDiv(rows*(h.Heads+h.KVHeads()), rowWarps)}, rowThreads, 0).
		tensor(qkv).int(rows).int(h.Heads).int(h.KVHeads()).int(h.HeadDim).
		tensor(q.Scale).tensor(k.Scale).float(q.Eps).float(k.Eps).end()
	keepAlive(qkv, q, k)
}

// AddScaled computes dst[i] += scale[i]*src[from[i]].
func (b *Backend) AddScaled(dst, src *tensor.Dense, from []int32, scale []float32) {
	backend.CheckScaled(dst, src, from, scale)
	if len(from) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(addScaledKernel, grid{x: ceilDiv(len(from), rowWarps)}, rowThreads, 0).
		tensor(dst).tensor(src).ints(from).pointer(upload(b, scale)).int(len(from)).
		int(backend.Width(dst)).end()
	keepAlive(dst, src)
}

// splitGrouped is SplitHeads for any number of key heads and any number of rotated numbers. The
// caller holds b.mu.
func (b *Backend) splitGrouped(q, k, v, qkv *tensor.Dense, segs []backend.Segment, pos []int32,
	h backend.Heads, r *backend.Rotary) {
	half := 0
	if r != nil {
		half = backend.Width(r.Cos)
	}
	b.begin(splitGroupedKernel, segmentGrid(segs), rowThreads, 0).
		tensor(qkv).segments(segs).ints(pos).int(h.Heads).int(h.KVHeads()).int(h.HeadDim).
		int(k.Shape()[2]).rotary(r).int(half).tensor(q).tensor(k).tensor(v).end()
}

// linearGated computes dst = act(x W^T + bias) * times, or adds it. The product goes to separate
// memory first, so that times may be dst. The caller holds b.mu.
func (b *Backend) linearGated(dst, x *tensor.Dense, rows int, m *matrix, e backend.Epilogue) {
	product := b.scratch(&b.products.gated, 4*rows*m.out)
	b.beginLinear(b.addressOf(x), rows, m, m.out, b.addressOf(e.Bias), e.Act, false, 1).
		pointer(product).pointer(0).end()

	n := rows * m.out
	g := grid{x: min(ceilDiv(n, rowThreads), 32*b.Multiprocessors)}
	c := b.begin(gateKernel, g, rowThreads, 0).
		pointer(product).tensor(e.Times).long(int64(n)).int(flagOf(e.Add))
	if e.Add {
		c.tensor(dst).pointer(0).end()
	} else {
		c.result(dst, rows, true).end()
	}
}
