//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import "unmask/backend"

// ceilingLoops are the loops of kernels/ceiling.cu, with the operations of a thread in a round and
// the shared memory of a block. The first that the device has is a precision's.
var ceilingLoops = [...][]struct {
	kernel *kernel
	ops    float64
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
	ops    [len(ceilingLoops)]float64 // operations per second, by precision
	memory float64                    // bytes per second, read and written
	empty  float64                    // seconds between two events with nothing between them
}

const (
	ceilingThreads = 256
	ceilingBlocks  = 4       // for each multiprocessor
	ceilingTime    = 1e-3    // least seconds of a loop for a reliable measurement
	ceilingRounds  = 1 << 20 // most rounds of a loop
	ceilingCopy    = 1 << 30 // most bytes
)

// ceilings measures the GPU's limits: it runs each loop longer and longer until it takes long
// enough. seconds runs the list and returns the time of its last command.
func (b *Backend) ceilings(seconds func() float64) (c ceilings) {
	blocks := ceilingBlocks * b.Multiprocessors
	var out memory
	at := b.scratch(&out, 4*blocks*ceilingThreads)
	defer b.arena.release(at)
	for as, loops := range ceilingLoops {
		l := loops[0]
		if !b.has(l.kernel) {
			l = loops[1]
		}
		for rounds := 1; rounds <= ceilingRounds; rounds *= 2 {
			b.begin(l.kernel, grid{x: blocks}, ceilingThreads, l.shared).pointer(at).int(rounds).end()
			took := seconds()
			if took <= 0 {
				continue
			}
			c.ops[as] = max(c.ops[as], l.ops*float64(rounds)*float64(blocks*ceilingThreads)/took)
			if took >= ceilingTime {
				break
			}
		}
	}
	for bytes := 1 << 20; bytes <= ceilingCopy; bytes *= 2 {
		free, _, err := b.memory()
		if err != nil || free < 4*bytes {
			break
		}
		p := b.allocate(2 * bytes)
		b.copy(p, p+devicePtr(bytes), bytes)
		took := seconds()
		b.arena.release(p)
		if took <= 0 {
			continue
		}
		c.memory = 2 * float64(bytes) / took // the last, because smaller ones fit in the cache
		if took >= ceilingTime/2 {
			break
		}
	}
	return c
}
