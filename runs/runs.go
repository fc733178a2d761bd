// Package runs keeps the output of long runs, a folder of files or one file of lines, with a
// manifest of finished outputs. A run may stop at any point: by a signal, a full disk or a power
// cut. Started again with the same Settings it continues, and its output is byte for byte that of
// an uninterrupted run.
package runs

import (
	"crypto/sha256"
	"encoding/hex"

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

// Folder is a run's folder of numbered files, 000000.png and so on, open for one writer.
type Folder = durable.Folder

// Lines is a run's file with one line for each output (JSONL), open for one writer.
type Lines = durable.Lines

// Range is the outputs First to First+N-1 of a run.
type Range = durable.Span

// Verify compares every output of a run, in the folder or the file of lines at name, with the
// manifest. It changes nothing.
func Verify(name string) (*Report, error) { return durable.Verify(durable.OS{}, name, ending) }

// ending is that of the names of files in a folder.
const ending = ".png"

// DigestOf returns the SHA-256 of an output.
func DigestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// DigestOfLine returns the SHA-256 of a line with its newline.
func DigestOfLine(line []byte) string { return DigestOf(append(line[:len(line):len(line)], '\n')) }
