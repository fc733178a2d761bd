package generate

import "slices"

// finishedLoop keeps the keys and values of the prompt and of finished blocks for a
// samplers.Pipeliner (d3LLM, the delayed cache of the authors' program). A finished block waits
// `delay` passes for its neighbours. While one waits, passes are full, and the keys that it has
// then stay. Other passes compute what is behind the kept blocks, and all of it every Refresh
// passes, if that is not 0. This is an approximation, as all reuse for such models is.
type finishedLoop struct {
	wholeLoop
	block, delay int
	found        []int // the passes that found the prompt and the blocks finished
	upto         int   // positions whose keys and values are kept
	from, to     int   // of the step: the first row, and the value of upto after it
}

func (f *finishedLoop) next() span {
	s := f.wholeLoop.next()
	n := f.N + 1
	for p := range min(f.upto, len(f.cached)) { // somebody changed the tokens
		if f.cached[p] != f.Tokens[p] {
			f.upto, f.found = 0, f.found[:0]
		}
	}
	f.to = f.upto
	waits := f.wait(n)
	f.from = f.upto
	if f.upto == 0 || f.to == f.upto && (waits || f.Refresh > 0 && n%f.Refresh == 0) {
		f.from = 0
	}
	return s
}

// wait moves f.to over the blocks that have waited long enough, and reports whether the next one is
// finished and waits.
func (f *finishedLoop) wait(n int) bool {
	origin := f.free[0]
	for i := 0; ; i++ {
		from, to := origin+(i-1)*f.block, min(origin+i*f.block, len(f.Tokens))
		if i == 0 {
			from = 0
		}
		if from >= len(f.Tokens) {
			return false
		}
		if to <= f.upto {
			continue
		}
		if slices.Contains(f.Tokens[from:to], f.mask) {
			return false
		}
		for len(f.found) <= i {
			f.found = append(f.found, n)
		}
		if i == 0 && n == 1 {
			f.found[0] = 0
		}
		if n-f.found[i] < f.delay {
			return true
		}
		f.to = to
	}
}

func (f *finishedLoop) feed(rows []int32, base int) []int32 {
	return f.appendRows(rows, base, f.from, len(f.Tokens))
}

func (f *finishedLoop) kept() {
	f.worked()
	f.cached = append(f.cached[:0], f.Tokens...)
}

func (f *finishedLoop) advance() { f.upto = f.to }
