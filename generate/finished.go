package generate

import "slices"

// finishedLoop keeps the keys and values of the prompt and of finished blocks for a
// samplers.Pipeliner (d3LLM, the delayed cache of the authors' program). A finished block waits
// `delay` passes for its neighbours. While one waits, passes are full, and the keys that it has
// then stay. Other passes compute what is behind the kept blocks, and all of it every Refresh
// passes, if that is not 0. This is an approximation, as all reuse for such models is.
type finishedLoop struct {
	wholeLoop
	blockSize int
	delay     int

	// finishedAt has the pass that found the prompt finished, and then those of the blocks.
	finishedAt []int

	// keptEnd is the number of positions whose keys and values are kept, from the first on.
	keptEnd int

	// firstRow is the first position that the step computes, and nextKeptEnd the value of keptEnd
	// after it.
	firstRow    int
	nextKeptEnd int
}

// nextSpan implements loop. It also decides from where on the pass computes: from the end of the
// kept blocks, or everything.
func (f *finishedLoop) nextSpan() span {
	s := f.wholeLoop.nextSpan()
	n := f.canvasSteps() + 1
	for p := range min(f.keptEnd, len(f.cached)) { // somebody changed the tokens
		if f.cached[p] != f.Tokens[p] {
			f.keptEnd = 0
			f.finishedAt = f.finishedAt[:0]
		}
	}

	f.nextKeptEnd = f.keptEnd
	waits := f.advanceKept(n)
	refreshes := f.Refresh > 0 && n%f.Refresh == 0
	f.firstRow = f.keptEnd
	if f.keptEnd == 0 || f.nextKeptEnd == f.keptEnd && (waits || refreshes) {
		f.firstRow = 0
	}
	return s
}

// advanceKept moves nextKeptEnd over the blocks that have waited long enough in pass n, and reports
// whether the next one is finished and waits.
func (f *finishedLoop) advanceKept(n int) (waits bool) {
	origin := f.free[0]
	for i := 0; ; i++ { // 0 is the prompt
		from := 0
		if i > 0 {
			from = origin + (i-1)*f.blockSize
		}
		to := min(origin+i*f.blockSize, len(f.Tokens))
		if from >= len(f.Tokens) {
			return false
		}
		if to <= f.keptEnd {
			continue
		}
		if slices.Contains(f.Tokens[from:to], f.mask) {
			return false
		}
		for len(f.finishedAt) <= i {
			f.finishedAt = append(f.finishedAt, n)
		}
		if i == 0 && n == 1 {
			f.finishedAt[0] = 0 // the prompt was there before the first pass
		}
		if n-f.finishedAt[i] < f.delay {
			return true
		}
		f.nextKeptEnd = to
	}
}

func (f *finishedLoop) appendPartialRows(rows []int32, base int) []int32 {
	return f.appendRowRange(rows, base, f.firstRow, len(f.Tokens))
}

func (f *finishedLoop) recordPass() {
	f.countWork()
	f.cached = append(f.cached[:0], f.Tokens...)
}

func (f *finishedLoop) advance() { f.keptEnd = f.nextKeptEnd }
