package parallel

import "sync/atomic"

// span is the items of a thread that have not begun, begin..end-1. Its own thread takes the first,
// so that its items are consecutive in memory; threads that have run out of items take the last.
type span struct {
	bounds atomic.Uint64 // begin<<32 | end
	_      [56]byte      // threads do not share a cache line
}

func (s *span) set(begin, end int) { s.bounds.Store(uint64(begin)<<32 | uint64(end)) }

func (s *span) first() (int, bool) {
	for {
		b := s.bounds.Load()
		begin, end := b>>32, b&(1<<32-1)
		if begin >= end {
			return 0, false
		}
		if s.bounds.CompareAndSwap(b, b+1<<32) {
			return int(begin), true
		}
	}
}

func (s *span) last() (int, bool) {
	for {
		b := s.bounds.Load()
		begin, end := b>>32, b&(1<<32-1)
		if begin >= end {
			return 0, false
		}
		if s.bounds.CompareAndSwap(b, b-1) {
			return int(end) - 1, true
		}
	}
}
