//go:build (!amd64 && !arm64) || purego

package screen

func (o Ops) above(s *Set, at int, x []float32, least float32) { above(s, at, x, least) }

func (o Ops) race(s *Set, at int, x []float32, words *[Size / 4][4]uint32, least float32) {
	race(s, at, x, words, least)
}
