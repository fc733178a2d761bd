package tasks

import (
	"fmt"
	"slices"
	"strings"

	"unmask/internal/philox"
	"unmask/param"
)

// grid is a puzzle: a square of the digits 1 to its size, 0 where one is missing. Each row and each
// column has every digit once; with boxes, so has each box.
type grid struct {
	size, box int // box is the side of a box, 0 for none
	cells     []int
}

// readGrid reads a puzzle: a row a line, with "." for what is missing.
func readGrid(text string, boxes bool) (grid, error) {
	rows := strings.Fields(text)
	g := grid{size: len(rows)}
	refused := &param.Error{Name: "puzzle", Found: param.Quote(text),
		Want: "2 to 9 rows of as many digits or dots", Reason: param.WrongType}
	if boxes {
		refused.Want = "4 or 9 rows of as many digits or dots"
		g.box = boxOf(g.size)
	}
	if g.size < 2 || g.size > 9 || boxes && g.box*g.box != g.size {
		return g, refused
	}
	for _, row := range rows {
		if len(row) != g.size {
			return g, refused
		}
		for _, c := range row {
			if c != '.' && (c < '1' || int(c-'0') > g.size) {
				return g, refused
			}
			g.cells = append(g.cells, max(0, int(c-'0')))
		}
	}
	return g, nil
}

// String returns the rows.
func (g grid) String() string {
	var b strings.Builder
	for i, c := range g.cells {
		if i > 0 && i%g.size == 0 {
			b.WriteByte('\n')
		}
		if c == 0 {
			b.WriteByte('.')
		} else {
			fmt.Fprint(&b, c)
		}
	}
	return b.String()
}

// fits reports whether a digit may stand in a cell, given the others.
func (g grid) fits(cell, digit int) bool {
	row, column := cell/g.size, cell%g.size
	for other, d := range g.cells {
		if d != digit || other == cell {
			continue
		}
		r, c := other/g.size, other%g.size
		if r == row || c == column || g.box > 0 && r/g.box == row/g.box && c/g.box == column/g.box {
			return false
		}
	}
	return true
}

// solvedBy reports whether the digits of a text are a solution, by rows; all else in it is ignored.
func (g grid) solvedBy(text string) bool {
	solution := g
	solution.cells = nil
	for _, c := range text {
		if c >= '0' && c <= '9' {
			solution.cells = append(solution.cells, int(c-'0'))
		}
	}
	if len(solution.cells) != len(g.cells) {
		return false
	}
	for i, d := range solution.cells {
		if d < 1 || d > g.size || g.cells[i] != 0 && g.cells[i] != d || !solution.fits(i, d) {
			return false
		}
	}
	return true
}

// count returns how many solutions a puzzle has, at most `most`.
func (g grid) count(most int) (n int) {
	at := slices.Index(g.cells, 0)
	if at < 0 {
		return 1
	}
	for d := 1; d <= g.size && n < most; d++ {
		if g.fits(at, d) {
			g.cells[at] = d
			n += g.count(most - n)
		}
	}
	g.cells[at] = 0
	return n
}

// newGrid returns a puzzle with one solution, and the solution: a cyclic square with its digits,
// rows and columns shuffled, whose cells are emptied in a random order as long as there is one
// solution, down to `given` digits.
func newGrid(size int, boxes bool, given int, r philox.Stream) (puzzle, solution grid) {
	g := grid{size: size, cells: make([]int, size*size)}
	if boxes {
		g.box = boxOf(size)
	}
	digits, rows, columns := shuffled(size, r), g.lines(r.At(1)), g.lines(r.At(4))
	for i, row := range rows {
		for j, column := range columns {
			at := row + column
			if g.box > 0 {
				at = g.box*(row%g.box) + row/g.box + column
			}
			g.cells[i*size+j] = digits[at%size] + 1
		}
	}
	solution = g
	solution.cells = slices.Clone(g.cells)
	left := len(g.cells)
	for _, at := range shuffled(len(g.cells), r.At(7)) {
		if left <= given {
			break
		}
		d := g.cells[at]
		g.cells[at] = 0
		if g.count(2) == 1 {
			left--
		} else {
			g.cells[at] = d
		}
	}
	return g, solution
}

// lines returns the rows, or the columns, in an order that keeps boxes together.
func (g grid) lines(r philox.Stream) (order []int) {
	if g.box == 0 {
		return shuffled(g.size, r)
	}
	for i, band := range shuffled(g.box, r) {
		for _, line := range shuffled(g.box, philox.Stream{Seed: r.Seed, Sequence: r.Sequence,
			Step: r.Step + 16*uint32(i+1)}) {
			order = append(order, band*g.box+line)
		}
	}
	return order
}

// boxOf returns the side of the boxes of a square: the least whose square is the size or more.
func boxOf(size int) int {
	box := 1
	for box*box < size {
		box++
	}
	return box
}

// shuffled returns 0 to n-1 in a random order.
func shuffled(n int, r philox.Stream) []int {
	out := make([]int, n)
	for i := range out {
		j := int(r.Uniform(i, philox.Setup) * float64(i+1))
		out[i], out[j] = out[j], i
	}
	return out
}
