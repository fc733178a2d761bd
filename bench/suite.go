package bench

import (
	"cmp"
	"runtime"
	"time"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/bench/internal/ceiling"
	"unmask/internal/parallel"
	"unmask/internal/simd"
)

// Suite is what measurements share: the processor, its ceilings and the network in memory.
type Suite struct {
	Device backend.Backend

	level   simd.Level
	pool    *parallel.Pool
	buffer  []float32 // larger than any cache
	network network
}

// NewSuite returns a suite on this number of threads, 0 for all cores. It panics where cpu.New
// does.
func NewSuite(threads int) *Suite {
	threads = cmp.Or(threads, runtime.GOMAXPROCS(0))
	level, err := simd.Select("")
	if err != nil {
		panic("bench: " + err.Error())
	}
	return &Suite{
		Device: cpu.New(cpu.Options{Threads: threads}),
		level:  level,
		pool:   parallel.New(threads),
	}
}

const (
	readName  = "read"
	readSize  = 256 << 20 // bytes: several times a large L3
	readChunk = 1 << 18   // float32 values per call
	burst     = 20 * time.Millisecond
)

// loop returns the loop whose rate is the ceiling of a precision.
func (s *Suite) loop(p backend.Precision) ceiling.Loop { return ceiling.LoopFor(s.level, p) }

// opsRate returns the operations per second of all threads, measured in a short burst. A share
// refers to a ceiling measured just before, so that a slow moment of the machine slows both.
func (s *Suite) opsRate(p backend.Precision) float64 {
	const turns = 16
	l := s.loop(p)
	rounds := 1000
	for {
		start := time.Now()
		s.pool.For(turns*s.pool.Threads(), func(int, int) { l.Run(rounds) })
		elapsed := time.Since(start)
		if elapsed >= burst {
			return l.Ops * float64(rounds*turns*s.pool.Threads()) / elapsed.Seconds()
		}
		factor := min(10, 1.2*float64(burst)/float64(max(elapsed, time.Microsecond)))
		rounds = int(float64(rounds)*factor) + 1
	}
}

// readRate returns the bytes per second that the threads can read from memory.
func (s *Suite) readRate() float64 {
	if s.buffer == nil {
		s.buffer = s.Device.New(readSize / 4).Float32s()
		for i := range s.buffer { // pages that were never written all map to the same one
			s.buffer[i] = 1
		}
	}
	start := time.Now()
	s.pool.For(len(s.buffer)/readChunk, func(_, i int) {
		ceiling.ReadMemory(s.level, s.buffer[i*readChunk:][:readChunk])
	})
	return readSize / time.Since(start).Seconds()
}

// ceilingMeasurements measure the limits themselves; their seconds are those of one GFLOP, or of
// the buffer.
func ceilingMeasurements() []Measurement {
	var out []Measurement
	for _, p := range precisions {
		out = append(out, Measurement{"ceiling/" + p.String(), func(s *Suite) (work, error) {
			l := s.loop(p)
			const rounds, turns = 20_000, 16
			ops := l.Ops * rounds * turns * float64(s.pool.Threads())
			return work{run: func() error {
				s.pool.For(turns*s.pool.Threads(), func(int, int) { l.Run(rounds) })
				return nil
			}, cost: cost{ops: ops, precision: p}}, nil
		}})
	}
	return append(out, Measurement{"ceiling/read", func(s *Suite) (work, error) {
		run := func() error {
			s.readRate()
			return nil
		}
		return work{run: run, cost: cost{bytes: readSize}}, nil
	}})
}

var precisions = []backend.Precision{backend.F32, backend.BF16, backend.Int8}
