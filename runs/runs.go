// Package runs keeps the output of long runs, a folder of files or one file of lines, with a
// manifest of finished outputs. A run may stop at any point: by a signal, a full disk or a power
// cut. Started again with the same Settings it continues, and its output is byte for byte that of
// an uninterrupted run.
package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"unmask/generate"
	"unmask/internal/durable"
)

// Settings determine a run's bytes, by name. OpenFolder and OpenLines refuse a run with other
// Settings and list the differences.
type Settings = durable.Settings

// Fault is an output that differs from the manifest.
type Fault = durable.Fault

// Report is the result of Verify.
type Report = durable.Report

// NewSettings returns the settings of a run of samples of r: the model's identity (its fingerprint,
// or the name of an exact one), the precision, and what r has, with its recipe in canonical text. r
// must be complete, see generate.Request.Check.
func NewSettings(identity, precision string, r generate.Request) Settings {
	s := Settings(r.Identity())
	s["model"], s["precision"] = identity, precision
	return s
}

// Folder is a run's folder of numbered files, 000000.png and so on, open for one writer. Its
// methods Done, Faults, Name, Pending, Put and Close are those of durable.Folder. Put takes what is
// Pending, in any order. One goroutine at a time may use one.
type Folder struct{ *durable.Folder }

// OpenFolder opens, begins or continues the run in dir, whose files end in ext (".png").
func OpenFolder(dir, ext string, s Settings) (*Folder, error) {
	return OpenFolderShard(dir, ext, s, Shard{}, 0)
}

// Range is the outputs First to First+N-1 of a run.
type Range struct{ First, N int }

// Rest returns the missing outputs of a run of n, in the order that Put takes. Before them come
// those of `also` that exist already but whose steps are needed again.
func (f *Folder) Rest(n int, also []int) []Range {
	pending := f.Pending(n)
	var wanted []int
	for _, i := range also {
		if !slices.Contains(pending, i) {
			wanted = append(wanted, i)
		}
	}
	var list []Range
	for j, i := range append(wanted, pending...) {
		if last := len(list) - 1; j > 0 && i == list[last].First+list[last].N {
			list[last].N++
			continue
		}
		list = append(list, Range{i, 1})
	}
	return list
}

// Lines is a run's file with one line for each output (JSONL), open for one writer. Its methods
// Done, Pending, Put and Close are those of durable.Lines. Put takes a line without its newline, in
// any order; it is written once all before it are. One goroutine at a time may use one.
type Lines struct{ *durable.Lines }

// OpenLines opens, begins or continues the run in the file name.
func OpenLines(name string, s Settings) (*Lines, error) {
	return OpenLinesShard(name, s, Shard{}, 0)
}

// Rest returns the missing lines of a run of n; its N is 0 if none is missing.
func (l *Lines) Rest(n int) Range {
	first := l.Done()
	return Range{first, max(0, l.End(n)-first)}
}

// Verify compares every output of a run, in the folder or the file of lines at name, with the
// manifest. It changes nothing.
func Verify(name string) (*Report, error) { return durable.Verify(durable.OS{}, name, ".png") }

// DigestOf returns the SHA-256 of an output.
func DigestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// DigestOfLine returns the SHA-256 of a line with its newline.
func DigestOfLine(line []byte) string { return DigestOf(append(line[:len(line):len(line)], '\n')) }
