//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

var (
	layerNormKernel   = register("unmask_layer_norm")
	channelSumsKernel = register("unmask_channel_sums")
	groupNormKernel   = register("unmask_group_norm")
)

// chunkPixels is the number of pixels whose sums a block of unmask_channel_sums writes.
const chunkPixels = 64

// LayerNorm computes dst = (x-mean)/sqrt(var+eps)*scale+shift by rows. dst may be x.
func (b *Backend) LayerNorm(dst, x *tensor.Dense, rows int, n backend.Norm) {
	backend.CheckLayerNorm(dst, x, rows, n)
	if rows == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	const threads = 128 // few, so that few rows use many multiprocessors
	b.begin(layerNormKernel, grid{x: ceilDiv(rows, threads/32)}, threads, 0).
		tensor(x).tensor(n.Scale).tensor(n.Shift).int(rows).int(backend.Width(x)).float(n.Eps).
		result(dst, rows, true).end()
	keepAlive(dst, x, n)
}

// GroupNorm writes the scale and shift [batch, channels] that normalise x [batch, pixels, channels]
// over the pixels and channels of a group.
func (b *Backend) GroupNorm(scale, shift, x *tensor.Dense, batch, pixels, channels, groups int,
	n backend.Norm) {
	backend.CheckGroupNorm(scale, shift, x, batch, pixels, channels, groups, n)
	if batch == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	chunks := ceilDiv(pixels, chunkPixels)
	sums := b.scratch(&b.images.sums, batch*chunks*channels*16)
	b.begin(channelSumsKernel, grid{x: chunks, y: batch}, 256, 0).pointer(sums).tensor(x).int(pixels).
		int(channels).end()
	b.begin(groupNormKernel, grid{x: groups, y: batch}, 256, 0).
		tensor(scale).tensor(shift).pointer(sums).tensor(n.Scale).tensor(n.Shift).
		int(chunks).int(pixels).int(channels).int(groups).float(n.Eps).end()
	keepAlive(scale, shift, x, n)
}
