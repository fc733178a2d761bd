//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import "unmask/backend"

// ceilingLoops are the loops of kernels/ceiling.cu by precision. The first that the device has
// measures the precision's ceiling: wgmma, where it exists, is the only way to Hopper's full rate.
var ceilingLoops = [...][]struct {
	kernel *kernel

	// ops are the operations of one thread in one round.
	ops float64

	// shared are the bytes of shared memory of a block.
	shared int
}{
	backend.F32: {{register("unmask_ceiling_f32"), 2 * 16, 0}},
	backend.BF16: {{register("unmask_ceiling_bf16_wgmma"), 8 * 2 * 64 * 128 * 16 / 128, 192 * 128},
		{register("unmask_ceiling_bf16"), 8 * 2 * 16 * 8 * 16 / 32, 0}},
	backend.Int8: {{register("unmask_ceiling_int8_wgmma"), 8 * 2 * 64 * 128 * 32 / 128, 192 * 128},
		{register("unmask_ceiling_int8"), 8 * 2 * 16 * 8 * 32 / 32, 0}},
}

// ceilings are the GPU's measured limits.
type ceilings struct {
	// ops are operations per second, by precision.
	ops [len(ceilingLoops)]float64

	// memory is bytes per second, those read and those written added.
	memory float64

	// empty is the seconds between two events with nothing between them: what every measured time
	// has too much.
	empty float64
}

const (
	ceilingThreads = 256
	ceilingBlocks  = 4       // blocks for each multiprocessor
	ceilingTime    = 1e-3    // least seconds of a loop for a reliable measurement
	ceilingRounds  = 1 << 20 // most rounds of a loop
	ceilingCopy    = 1 << 30 // most bytes of a copy
)

// measureCeilings measures the GPU's limits: it runs each loop longer and longer until it takes
// long enough. seconds runs the list and returns the time of its last command.
func (b *Backend) measureCeilings(seconds func() float64) (c ceilings) {
	blocks := ceilingBlocks * b.Multiprocessors
	var out scratchMemory
	sums := b.scratch(&out, 4*blocks*ceilingThreads)
	defer b.arena.release(sums)

	for precision, loops := range ceilingLoops {
		loop := loops[0]
		if !b.hasKernel(loop.kernel) {
			loop = loops[1]
		}
		for rounds := 1; rounds <= ceilingRounds; rounds *= 2 {
			b.begin(loop.kernel, grid{x: blocks}, ceilingThreads, loop.shared).
				pointer(sums).int(rounds).end()
			elapsed := seconds()
			if elapsed <= 0 {
				continue
			}
			ops := loop.ops * float64(rounds) * float64(blocks*ceilingThreads)
			c.ops[precision] = max(c.ops[precision], ops/elapsed)
			if elapsed >= ceilingTime {
				break
			}
		}
	}

	for bytes := 1 << 20; bytes <= ceilingCopy; bytes *= 2 {
		free, _, err := b.memoryInfo()
		if err != nil || free < 4*bytes {
			break
		}
		p := b.allocate(2 * bytes)
		b.copy(p, p+devicePtr(bytes), bytes)
		elapsed := seconds()
		b.arena.release(p)
		if elapsed <= 0 {
			continue
		}
		c.memory = 2 * float64(bytes) / elapsed // the last, because smaller ones fit in the cache
		if elapsed >= ceilingTime/2 {
			break
		}
	}
	return c
}
