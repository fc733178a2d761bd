// Package runs keeps the output of long runs, a folder of files or one file of lines, beside a
// manifest of what is done. A run may die at any point, by a signal, a full disk or a power cut;
// begun again with the same Settings it goes on, and what it leaves is byte for byte what an
// uninterrupted run leaves.
package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"unmask/generate"
	"unmask/internal/durable"
)

// Settings are what decides a run's bytes, by name. A run with others is refused with the
// differences.
type Settings = durable.Settings

// Fault is an output that is not what the manifest says.
type Fault = durable.Fault

// Report is what Verify found.
type Report = durable.Report

// NewSettings returns what a run's bytes depend on: the model's identity (its fingerprint, or the
// name of an exact one), the precision, and all of o but the batch size and how many sequences
// there are. Of the recipe it is the meaning, however it was spelled. o is complete: see
// generate.Options.Check.
func NewSettings(identity, precision string, o generate.Options) Settings {
	known := sha256.New()
	for _, t := range o.Tokens {
		fmt.Fprintln(known, t)
	}
	s := Settings{
		"model": identity, "precision": precision, "seed": strconv.FormatUint(o.Seed, 10),
		"length": strconv.Itoa(o.Length), "known": hex.EncodeToString(known.Sum(nil)[:8]),
	}
	recipe := o.Recipe()
	for _, p := range generate.Params() {
		if text := recipe.Get(p.Name); text != "" {
			s[p.Name] = text
		}
	}
	return s
}

// Folder is a run's folder of numbered files, 000000.png and so on, open for one writer. Its
// methods Done, Faults, Name, Pending, Put and Close are those of a sequence of outputs: Put takes
// the index, in the order of Pending.
type Folder struct{ *durable.Folder }

// OpenFolder opens, begins or continues the run in dir, whose files end in ext (".png").
func OpenFolder(dir, ext string, s Settings) (*Folder, error) {
	f, err := durable.OpenFolder(durable.OS{}, dir, ext, s)
	if err != nil {
		return nil, err
	}
	return &Folder{f}, nil
}

// Runs returns what makes the outputs that a run of o.N sequences still lacks, as contiguous runs
// in the order that Put takes; before them those of also that are there, such as the first ones,
// whose steps are wanted again.
func (f *Folder) Runs(o generate.Options, also []int) []generate.Options {
	pending := f.Pending(o.N)
	var wanted []int
	for _, i := range also {
		if !slices.Contains(pending, i) {
			wanted = append(wanted, i)
		}
	}
	var list []generate.Options
	for j, i := range append(wanted, pending...) {
		if last := len(list) - 1; j > 0 && i == list[last].First+list[last].N {
			list[last].N++
			continue
		}
		o.First, o.N = i, 1
		list = append(list, o)
	}
	return list
}

// Lines is a run's file of one line an output (JSONL), open for one writer.
type Lines struct {
	lines *durable.Lines
	early map[int]entry // those that came before their turn
}

type entry struct {
	seed uint64
	line []byte
}

// OpenLines opens, begins or continues the run in the file name.
func OpenLines(name string, s Settings) (*Lines, error) {
	l, err := durable.OpenLines(durable.OS{}, name, s)
	if err != nil {
		return nil, err
	}
	return &Lines{l, map[int]entry{}}, nil
}

// Done returns the index of the next line: how many there are, and how many are before this shard.
func (l *Lines) Done() int { return l.lines.Done() }

// Rest returns what makes the lines that a run of o.N sequences still lacks; its N is 0 if all are
// there.
func (l *Lines) Rest(o generate.Options) generate.Options {
	o.First = l.Done()
	o.N = max(0, l.lines.End(o.N)-o.First)
	return o
}

// Put takes line i, without its newline, in any order: it is on the disk once all before it came.
func (l *Lines) Put(i int, seed uint64, line []byte) error {
	if i < l.Done() { // it waited beside the file
		return nil
	}
	l.early[i] = entry{seed, line}
	for {
		next := l.Done()
		e, ok := l.early[next]
		if !ok {
			return nil
		}
		delete(l.early, next)
		if err := l.lines.Put(next, e.seed, e.line); err != nil {
			return err
		}
	}
}

// Close lets another process write. Lines whose turn did not come are lost.
func (l *Lines) Close() error { return l.lines.Close() }

// Verify reads every output of a run, in the folder or the file of lines at name, and compares it
// with the manifest. It changes nothing.
func Verify(name string) (*Report, error) { return durable.Verify(durable.OS{}, name, ".png") }
