package tasks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"unmask"
	"unmask/internal/philox"
	"unmask/param"
)

// Made are the kinds that Make knows.
var Made = []string{"waiting-line", "sudoku", "latin-square"}

// SizeParam is the size of what is made: the names in a line, or the side of a square.
var SizeParam = param.Param{Name: "size", Min: 2, Max: 32, Zero: "5 names, a square of 4",
	Default: "0", Help: "names in a waiting line, or the side of a square: 4 or 9 of a sudoku, " +
		"2 to 9 of a Latin square"}

// Make returns n items of a kind and a seed: tasks whose right answer a program
// knows. Waiting lines follow the list of ParallelBench (Kang et al. 2025, arXiv 2510.04767), with
// our own names and words: copy, reverse, sort, shuffle, replace, insert, in turn. Copying can be
// written in parallel; in a shuffled line every name depends on all others. A size of 0 means 5
// names, or a square of 4.
func Make(kind string, size, n int, seed uint64) (items []Item, err error) {
	for i := range n {
		r := philox.Stream{Seed: seed, Sequence: uint32(i)}
		var it Item
		switch kind {
		case "waiting-line":
			if size == 0 {
				size = 5
			}
			it = waitingLine(operations[i%len(operations)], size, r)
		case "sudoku", "latin-square":
			if size == 0 {
				size = 4
			}
			boxes := kind == "sudoku"
			if size > 9 || boxes && boxOf(size)*boxOf(size) != size {
				want := "2 to 9"
				if boxes {
					want = "4 or 9"
				}
				return nil, &param.Error{Name: "size", Found: fmt.Sprint(size), Want: want,
					Reason: param.OutOfRange}
			}
			it = square(kind, size, r)
		default:
			return nil, &param.Error{Name: "make", Found: param.Quote(kind), Want: param.Either(Made),
				Reason: param.NoSuch}
		}
		it.ID = fmt.Sprintf("%s-%d", kind, i)
		items = append(items, it)
	}
	return items, nil
}

var operations = []string{"copy", "reverse", "sort", "shuffle", "replace", "insert"}

// people are the names in waiting lines: more than the longest line has.
var people = strings.Fields("Ada Alan Amir Anna Ben Bram Carla Chen Clara Dana David Elena Emil Erik " +
	"Fatima Felix Grace Hana Hugo Ines Ivan Jana Jonas Kai Karin Lars Lea Lily Luca Maria Maya Milan " +
	"Nadia Nils Nora Olga Omar Otto Paul Petra Rosa Ruth Sam Sara Tariq Tom Uma Vera Viktor Wanda " +
	"Yara Yusuf Zoe")

// waitingLine returns an item about the people in a queue.
func waitingLine(operation string, size int, r philox.Stream) Item {
	var names []string
	for _, i := range shuffled(len(people), r) {
		names = append(names, people[i])
	}
	line, other := names[:size:size], names[size]
	place := int(r.At(1).Uniform(0, philox.Setup) * float64(size))
	right := slices.Clone(line)
	var wish string
	it := Item{Kind: "waiting-line"}
	switch operation {
	case "copy":
		wish = "Write the line as it is."
	case "reverse":
		wish = "Write the line in reverse."
		slices.Reverse(right)
	case "sort":
		wish = "Write the line in alphabetical order."
		slices.Sort(right)
	case "shuffle":
		wish = "Write the line in another order."
		it.Line = line
	case "replace":
		wish = fmt.Sprintf("%s leaves and %s takes that place. Write the line.", line[place], other)
		right[place] = other
	case "insert":
		wish = fmt.Sprintf("%s joins the line right behind %s. Write the line.", other, line[place])
		right = slices.Insert(right, place+1, other)
	}
	it.Input = prompt(fmt.Sprintf("People wait in a line: %s. %s\nLine: ", strings.Join(line, ", "),
		wish))
	it.Answer = encoded(right)
	return it
}

// square returns a puzzle to complete, with half of its digits or as many as one solution needs.
func square(kind string, size int, r philox.Stream) Item {
	puzzle, _ := newGrid(size, kind == "sudoku", size*size/2, r)
	parts := "Every row and every column"
	if puzzle.box > 0 {
		parts = fmt.Sprintf("Every row, every column and every box of %d by %d", puzzle.box, puzzle.box)
	}
	return Item{Kind: kind, Puzzle: puzzle.String(), Input: prompt(fmt.Sprintf(
		"%s has each of the digits 1 to %d once. Write all rows with the dots replaced by digits.\n"+
			"%s\nSolution:\n", parts, size, puzzle))}
}

// prompt returns the request of a text to continue.
func prompt(text string) unmask.Input { return unmask.InputOf(unmask.Request{Prompt: text}) }

func encoded(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: v is a list of texts
	}
	return data
}
