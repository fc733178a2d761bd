package tasks

import (
	"math"
	"strings"

	"unmask/param"
)

// grid is a puzzle: a square of the digits 1 to its size. Each row and each column has every digit
// once; with boxes, so has each box.
type grid struct {
	size  int
	box   int   // side of a box, 0 for none
	cells []int // row by row, 0 where a digit is missing
}

// readGrid reads a puzzle: a row a line, with "." for what is missing.
func readGrid(text string, boxes bool) (grid, error) {
	rows := strings.Fields(text)
	g := grid{size: len(rows)}
	refused := &param.Error{
		Name:   "puzzle",
		Found:  param.Quote(text),
		Want:   "2 to 9 rows of as many digits or dots",
		Reason: param.WrongType,
	}
	if boxes {
		refused.Want = "4 or 9 rows of as many digits or dots"
		g.box = int(math.Sqrt(float64(g.size)))
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

// canHold reports whether a digit may stand in a cell, given the others.
func (g grid) canHold(cell, digit int) bool {
	row := cell / g.size
	column := cell % g.size
	for other, d := range g.cells {
		if d != digit || other == cell {
			continue
		}
		r := other / g.size
		c := other % g.size
		if r == row || c == column || g.box > 0 && r/g.box == row/g.box && c/g.box == column/g.box {
			return false
		}
	}
	return true
}

// isSolvedBy reports whether the digits of a text are a solution, by rows; all else in it is
// ignored.
func (g grid) isSolvedBy(text string) bool {
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
		if d < 1 || d > g.size || g.cells[i] != 0 && g.cells[i] != d || !solution.canHold(i, d) {
			return false
		}
	}
	return true
}
