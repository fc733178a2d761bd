package traces

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"unmask/generate"
)

// State is a sample during replay. One goroutine at a time may use one.
type State struct {
	header Header
	length int
	open   map[int]*sample // unfinished samples by number
	done   map[int]bool    // numbers of the finished ones
	grows  bool            // positions of some sample moved
	now    []Piece         // pieces of the shown sample; Position is -1 where masked
}

type sample struct {
	step   int     // the last that was read
	steps  int     // at most
	pieces []Piece // of each position
}

// Unfinished is the error of a trace that ends before its samples do, such as that of an
// interrupted run. All of its steps were shown.
type Unfinished struct {
	Samples     int // that do not end
	Sample      int // the first of them, by number
	Step, Steps int // its last step, and how many it has at most
}

// Error implements error.
func (u *Unfinished) Error() string {
	more := ""
	if u.Samples > 1 {
		more = fmt.Sprintf("; %d samples do not end", u.Samples)
	}
	return fmt.Sprintf("sample %d ends after step %d of %d%s", u.Sample, u.Step, u.Steps, more)
}

const (
	longestTrace = 1 << 20 // positions
	maxSteps     = 1 << 20 // of a sample
	traceLine    = 64 << 20
)

// Read reads a trace and calls show after each of its steps, in the order of the run. It returns
// *Unfinished if samples do not end.
func Read(in io.Reader, show func(r *State, s *Step) error) error {
	r, err := lines(in, func(r *State, s *Step) error { return r.play(s, show) })
	if err != nil {
		return err
	}
	return r.unfinished()
}

// ReadSamples is Read, but shows one sample after the other. Samples of a batch ran together,
// so it keeps the steps of later ones until their turn.
func ReadSamples(in io.Reader, show func(r *State, s *Step) error) error {
	var samples []int // the first one is being shown
	waiting := map[int][]*Step{}
	var r *State // nil before the first step
	next := func(end bool) error {
		for len(samples) > 0 {
			first := samples[0]
			done := end
			for _, s := range waiting[first] {
				if err := r.play(s, show); err != nil {
					return err
				}
				done = done || s.Done
			}
			delete(waiting, first)
			if !done {
				return nil
			}
			samples = samples[1:]
		}
		return nil
	}
	_, err := lines(in, func(read *State, s *Step) error {
		r = read
		if (len(samples) == 0 || s.Sample != samples[0]) && waiting[s.Sample] == nil {
			samples = append(samples, s.Sample)
		}
		waiting[s.Sample] = append(waiting[s.Sample], s)
		if s.Sample != samples[0] {
			return nil
		}
		return next(false)
	})
	if err != nil {
		return err
	}
	if err := next(true); err != nil || r == nil { // what an interrupted run left
		return err
	}
	return r.unfinished()
}

// unfinished returns *Unfinished of the samples that do not end.
func (r *State) unfinished() error {
	if len(r.open) == 0 {
		return nil
	}
	u := &Unfinished{Samples: len(r.open), Sample: slices.Min(slices.Collect(maps.Keys(r.open)))}
	u.Step, u.Steps = r.open[u.Sample].step, r.open[u.Sample].steps
	return u
}

// play applies a step to its sample and shows it.
func (r *State) play(s *Step, show func(r *State, s *Step) error) error {
	if err := r.take(s); err != nil {
		return err
	}
	if err := show(r, s); err != nil {
		return err
	}
	if s.Done {
		delete(r.open, s.Sample)
		r.done[s.Sample] = true
	}
	return nil
}

// lines reads the lines of a trace.
func lines(in io.Reader, each func(r *State, s *Step) error) (*State, error) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, traceLine)
	var r *State
	for n := 1; scanner.Scan(); n++ {
		if r == nil {
			var err error
			if r, err = readHeader(scanner.Bytes()); err != nil {
				return nil, fmt.Errorf("line 1: %w", err)
			}
			continue
		}
		s, err := r.read(scanner.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := each(r, s); err != nil {
			return nil, err
		}
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line of more than %d bytes", traceLine)
	} else if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, errors.New("the file is empty, want lines of unmask text --trace")
	}
	return r, nil
}

func readHeader(line []byte) (*State, error) {
	r := &State{length: 1, open: map[int]*sample{}, done: map[int]bool{}}
	h := &r.header
	if err := unmarshal(line, h, "known"); errors.As(err, new(*missing)) && h.Version == version {
		return nil, err
	} else if err != nil || h.Version == 0 {
		return nil, errors.New("the line is no header of a trace, want a file of unmask text --trace")
	}
	if h.Version != version {
		return nil, fmt.Errorf("trace version is %d, want %d", h.Version, version)
	}
	if len(h.Shape) < 1 || len(h.Shape) > 2 {
		return nil, fmt.Errorf("shape is %v, want one or two numbers", h.Shape)
	}
	for _, n := range h.Shape {
		if n < 1 || n > longestTrace/r.length {
			return nil, fmt.Errorf("shape is %v, want 1 to %d positions", h.Shape, longestTrace)
		}
		r.length *= n
	}
	if h.Hole == "" {
		h.Hole = " "
	}
	return r, check(h.Known, r.length)
}

// check checks the positions of a sequence.
func check(pieces []Piece, length int) error {
	for _, p := range pieces {
		if p.Position < 0 || p.Position >= length {
			return fmt.Errorf("position is %d, want 0 to %d", p.Position, length-1)
		}
		if p.Token < 0 {
			return fmt.Errorf("token at position %d is %d, want at least 0", p.Position, p.Token)
		}
		if p.P != nil && !(*p.P >= 0 && *p.P <= 1+1e-6 && !math.IsNaN(*p.P)) {
			return fmt.Errorf("probability at position %d is %v, want 0 to 1", p.Position, *p.P)
		}
	}
	return nil
}

// maxOpen is the most unfinished samples at once.
const maxOpen = 1 << 16

// read parses a step's line.
func (r *State) read(line []byte) (*Step, error) {
	s := &Step{Step: -1}
	if err := unmarshal(line, s, "sample", "step", "steps", "opened"); errors.As(err,
		new(*missing)) && s.Step >= 0 {
		return nil, err
	} else if err != nil || s.Step < 0 {
		return nil, errors.New("it is no step of unmask text --trace")
	}
	if s.Sample < 0 {
		return nil, fmt.Errorf("sample is %d, want at least 0", s.Sample)
	}
	if s.Steps < s.Step || s.Steps > maxSteps {
		return nil, fmt.Errorf("step is %d of %d, want at most %d", s.Step, s.Steps,
			min(max(s.Steps, 0), maxSteps))
	}
	if r.grows = r.grows || len(s.Resized) > 0; r.grows {
		return s, nil // take knows how long the sample is
	}
	return s, s.check(r.length)
}

// check checks a step's positions.
func (s *Step) check(length int) error {
	if err := check(s.Opened, length); err != nil {
		return err
	}
	for _, p := range s.Closed {
		if p < 0 || p >= length {
			return fmt.Errorf("closed position is %d, want 0 to %d", p, length-1)
		}
	}
	return nil
}

// resize applies a step's changes of the length.
func (now *sample) resize(list []generate.Resize) error {
	for _, z := range list {
		most := longestTrace - len(now.pieces)
		if n := len(now.pieces); z.Position < 0 || z.Position > n || z.Into < 0 || z.Into > most {
			return fmt.Errorf("position %d turns into %d, want one of 0 to %d, into 0 to %d", z.Position,
				z.Into, n, max(most, 0))
		}
		now.pieces = generate.Follow(now.pieces, []generate.Resize{z}, Piece{Position: -1})
	}
	for i := range now.pieces {
		if now.pieces[i].Position >= 0 {
			now.pieces[i].Position = i
		}
	}
	return nil
}

// take applies a step to its sample, which becomes the shown one.
func (r *State) take(s *Step) error {
	now, ok := r.open[s.Sample]
	if r.done[s.Sample] {
		return fmt.Errorf("sample %d goes on after its end", s.Sample)
	}
	if !ok {
		if len(r.open) >= max(1, min(maxOpen, longestTrace/r.length)) {
			return fmt.Errorf("sample %d: too many unfinished samples", s.Sample)
		}
		now = &sample{step: min(s.Step, 1) - 1, pieces: make([]Piece, r.length)}
		for i := range now.pieces {
			now.pieces[i].Position = -1
		}
		for _, p := range r.header.Known {
			now.pieces[p.Position] = p
		}
		r.open[s.Sample] = now
	}
	if s.Step != now.step+1 {
		return fmt.Errorf("sample %d: step is %d, want %d: lines are missing", s.Sample, s.Step,
			now.step+1)
	}
	now.step, now.steps = s.Step, s.Steps
	if r.grows {
		if err := now.resize(s.Resized); err != nil {
			return fmt.Errorf("sample %d, step %d: %w", s.Sample, s.Step, err)
		}
		if err := s.check(len(now.pieces)); err != nil {
			return fmt.Errorf("sample %d, step %d: %w", s.Sample, s.Step, err)
		}
	}
	for _, p := range s.Opened {
		now.pieces[p.Position] = p
	}
	for _, p := range s.Closed {
		now.pieces[p].Position = -1
	}
	r.now = now.pieces
	return nil
}

// Cell stands for an open position of an image.
const Cell = "█"

// text returns how a piece is shown by itself.
func (p *Piece) text() string {
	switch {
	case p.Bytes != nil:
		return strings.ToValidUTF8(string(p.Bytes), "\uFFFD")
	case p.Piece != "":
		return p.Piece
	}
	return Cell
}

// Texts returns the text of each position, with line breaks after the rows of a grid. A rune spread
// over several positions belongs to the first.
func (r *State) Texts() []string {
	out := make([]string, len(r.now))
	for i := 0; i < len(out); i++ {
		p := &r.now[i]
		switch {
		case p.Position < 0:
			out[i] = r.header.Hole
		case p.Bytes == nil:
			out[i] = p.text()
		default:
			run, first := bytes.Clone(p.Bytes), i
			for i+1 < len(out) && r.now[i+1].Position >= 0 && r.now[i+1].Bytes != nil {
				i++
				run = append(run, r.now[i].Bytes...)
			}
			out[first] = strings.ToValidUTF8(string(run), "\uFFFD")
		}
	}
	if len(r.header.Shape) == 2 {
		for i := r.header.Shape[1] - 1; i < len(out)-1; i += r.header.Shape[1] {
			out[i] += "\n"
		}
	}
	return out
}

// Masked reports whether a position is masked.
func (r *State) Masked(position int) bool { return r.now[position].Position < 0 }

// Print writes a line for a step and, after its last step, the sample.
func (r *State) Print(out io.Writer, s *Step) {
	fmt.Fprintf(out, "sample %d, step %d of %d:", s.Sample, s.Step, s.Steps)
	for i, o := range s.Opened {
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, " %d", o.Position)
		if o.Piece != "" || o.Bytes != nil {
			fmt.Fprintf(out, " %q", o.text())
		} else {
			fmt.Fprintf(out, " token %d", o.Token)
		}
		if o.P != nil {
			fmt.Fprintf(out, " p=%.3g", *o.P)
		}
		if o.Stage > 0 {
			fmt.Fprintf(out, " stage %d", o.Stage)
		}
	}
	if len(s.Opened) == 0 {
		fmt.Fprint(out, " nothing opened")
	}
	for _, z := range s.Resized {
		if z.Into == 0 {
			fmt.Fprintf(out, "; %d removed", z.Position)
		} else {
			fmt.Fprintf(out, "; %d masks at %d", z.Into, z.Position)
		}
	}
	if len(s.Closed) > 0 {
		fmt.Fprintf(out, "; masked again: %s", strings.Trim(fmt.Sprint(s.Closed), "[]"))
	}
	fmt.Fprintln(out)
	if s.Done {
		fmt.Fprintln(out, strings.Join(r.Texts(), ""))
	}
}
