package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"unmask/param"
)

const mostFrames = 1000 // a second

func newReplay() *cobra.Command {
	var fps float64
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Show a run again, from what --trace wrote, without its model",
		Long: `Show a run again, from what --trace wrote, without its model.

On a terminal each sample is redrawn step after step, one sample after another. Elsewhere there is a line a step: what
opened, with its probability, at which position and, of partial caching, in which stage.`,
		Args: exactly(1, "a FILE of unmask text --trace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return replayFile(cmd.Context(), args[0], fps)
		},
	}
	floatFlag(cmd.Flags(), &fps, param.Param{Name: "fps", Min: 0.001, Max: mostFrames, Default: "8",
		Help: "steps a second, on a terminal"})
	return cmd
}

func replayFile(ctx context.Context, name string, fps float64) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is a %s, allowed is a file", name, kind(info))
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, cancel := untilStopped(ctx)
	defer cancel()
	if term.IsTerminal(int(os.Stdout.Fd())) {
		w := newWatcher(nil, os.Stdout)
		wait := time.NewTicker(time.Duration(float64(time.Second) / fps))
		defer wait.Stop()
		err = replaySamples(in, func(r *replayed, s *traceStep) error {
			w.redraw(r, s)
			select {
			case <-wait.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	} else {
		out := bufio.NewWriter(os.Stdout)
		err = replay(in, func(r *replayed, s *traceStep) error {
			r.print(out, s)
			if err := out.Flush(); err != nil {
				return fmt.Errorf("standard output: %w", pathless(err))
			}
			return ctx.Err()
		})
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// redraw shows a step over the one before; the next sample comes below.
func (w *watcher) redraw(r *replayed, s *traceStep) {
	w.show(r.picture(s))
	if s.Done {
		w.lines = 0
	}
}

// replayed is a sample as a trace builds it up.
type replayed struct {
	header traceHeader
	length int
	open   map[int][]tracePiece // of each sample that is not finished: of each position
	now    []tracePiece         // of the sample that is shown; Position is -1 where masked
}

const (
	longestTrace = 1 << 20 // positions
	traceLine    = 64 << 20
)

// replay reads a trace and shows each of its steps, in the order of the run.
func replay(in io.Reader, show func(r *replayed, s *traceStep) error) error {
	return readTrace(in, func(r *replayed, s *traceStep) error { return r.play(s, show) })
}

// replaySamples shows one sample after another. Those of a batch ran side by side, so the steps of the
// others wait.
func replaySamples(in io.Reader, show func(r *replayed, s *traceStep) error) error {
	var samples []int // the first is shown
	waiting := map[int][]*traceStep{}
	var r *replayed
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
	err := readTrace(in, func(read *replayed, s *traceStep) error {
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
	return next(true) // what an interrupted run left
}

// play takes a step into its sample and shows it.
func (r *replayed) play(s *traceStep, show func(r *replayed, s *traceStep) error) error {
	if err := r.take(s); err != nil {
		return err
	}
	if err := show(r, s); err != nil {
		return err
	}
	if s.Done {
		delete(r.open, s.Sample)
	}
	return nil
}

// readTrace reads a trace's steps.
func readTrace(in io.Reader, each func(r *replayed, s *traceStep) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, traceLine)
	var r *replayed
	for n := 1; lines.Scan(); n++ {
		if r == nil {
			var err error
			if r, err = readTraceHeader(lines.Bytes()); err != nil {
				return fmt.Errorf("line 1: %w", err)
			}
			continue
		}
		s, err := r.read(lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := each(r, s); err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("a line of more than %d bytes", traceLine)
	} else if err != nil {
		return err
	}
	if r == nil {
		return errors.New("is empty, wanted are lines of unmask text --trace")
	}
	return nil
}

func readTraceHeader(line []byte) (*replayed, error) {
	r := &replayed{length: 1, open: map[int][]tracePiece{}}
	h := &r.header
	if err := json.Unmarshal(line, h); err != nil || h.Trace == 0 {
		return nil, errors.New("no header of unmask text --trace")
	}
	if h.Trace != traceVersion {
		return nil, fmt.Errorf("trace version %d, allowed is %d", h.Trace, traceVersion)
	}
	if len(h.Shape) < 1 || len(h.Shape) > 2 {
		return nil, fmt.Errorf("shape %v, allowed are one or two numbers", h.Shape)
	}
	for _, n := range h.Shape {
		if n < 1 || n > longestTrace/r.length {
			return nil, fmt.Errorf("shape %v, allowed are 1..%d positions", h.Shape, longestTrace)
		}
		r.length *= n
	}
	if h.Hole == "" {
		h.Hole = " "
	}
	return r, r.check(h.Known)
}

func (r *replayed) check(pieces []tracePiece) error {
	for _, p := range pieces {
		if p.Position < 0 || p.Position >= r.length {
			return fmt.Errorf("position %d, allowed are 0..%d", p.Position, r.length-1)
		}
		if p.P != nil && !(*p.P >= 0 && *p.P <= 1+1e-6 && !math.IsNaN(*p.P)) {
			return fmt.Errorf("probability %v at position %d, allowed are 0..1", *p.P, p.Position)
		}
	}
	return nil
}

// mostOpen is how many samples may be unfinished at once.
const mostOpen = 1 << 16

// read reads a step's line.
func (r *replayed) read(line []byte) (*traceStep, error) {
	s := &traceStep{Step: -1}
	if err := json.Unmarshal(line, s); err != nil || s.Step < 0 {
		return nil, errors.New("no step of unmask text --trace")
	}
	if err := r.check(s.Opened); err != nil {
		return nil, err
	}
	for _, p := range s.Closed {
		if p < 0 || p >= r.length {
			return nil, fmt.Errorf("closed position %d, allowed are 0..%d", p, r.length-1)
		}
	}
	return s, nil
}

// take takes a step into its sample, which is then the one that is shown.
func (r *replayed) take(s *traceStep) error {
	now, ok := r.open[s.Sample]
	if !ok {
		if len(r.open) >= max(1, min(mostOpen, longestTrace/r.length)) {
			return fmt.Errorf("sample %d: too many unfinished samples", s.Sample)
		}
		now = make([]tracePiece, r.length)
		for i := range now {
			now[i].Position = -1
		}
		for _, p := range r.header.Known {
			now[p.Position] = p
		}
		r.open[s.Sample] = now
	}
	for _, p := range s.Opened {
		now[p.Position] = p
	}
	for _, p := range s.Closed {
		now[p].Position = -1
	}
	r.now = now
	return nil
}

// text is a piece as it is shown by itself.
func (p *tracePiece) text() string {
	switch {
	case p.Bytes != nil:
		return strings.ToValidUTF8(string(p.Bytes), "\uFFFD")
	case p.Piece != "":
		return p.Piece
	}
	return cell
}

// texts shows each position, with line breaks after the rows of a grid. A rune that is spread over
// several positions belongs to the first.
func (r *replayed) texts() []string {
	out := make([]string, r.length)
	for i := 0; i < r.length; i++ {
		p := &r.now[i]
		switch {
		case p.Position < 0:
			out[i] = r.header.Hole
		case p.Bytes == nil:
			out[i] = p.text()
		default:
			run, first := bytes.Clone(p.Bytes), i
			for i+1 < r.length && r.now[i+1].Position >= 0 && r.now[i+1].Bytes != nil {
				i++
				run = append(run, r.now[i].Bytes...)
			}
			out[first] = strings.ToValidUTF8(string(run), "\uFFFD")
		}
	}
	if len(r.header.Shape) == 2 {
		for i := r.header.Shape[1] - 1; i < r.length-1; i += r.header.Shape[1] {
			out[i] += "\n"
		}
	}
	return out
}

func (r *replayed) picture(s *traceStep) picture {
	masked := func(p int) bool { return r.now[p].Position < 0 }
	fresh := func(p int) bool {
		return slices.ContainsFunc(s.Opened, func(o tracePiece) bool { return o.Position == p })
	}
	return picture{s.Sample, s.Step, s.Steps, r.texts(), masked, fresh}
}

// print writes a step as a line, and the sample after its last.
func (r *replayed) print(out io.Writer, s *traceStep) {
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
	if len(s.Closed) > 0 {
		fmt.Fprintf(out, "; masked again: %s", strings.Trim(fmt.Sprint(s.Closed), "[]"))
	}
	fmt.Fprintln(out)
	if s.Done {
		fmt.Fprintln(out, strings.Join(r.texts(), ""))
	}
}
