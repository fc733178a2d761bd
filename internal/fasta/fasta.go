// Package fasta reads and writes FASTA, the format of sequences of residues (Pearson and Lipman
// 1988): a line with > and a name, then the sequence in one or several lines.
package fasta

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Record is one sequence. Name is the whole line after >.
type Record struct{ Name, Sequence string }

// IsFile reports whether a file's name says that it is FASTA.
func IsFile(name string) bool {
	switch filepath.Ext(name) {
	case ".fasta", ".fa", ".faa":
		return true
	}
	return false
}

// Limits of Read.
const (
	maxLine    = 16 << 20  // bytes
	maxRecords = 1 << 20   // sequences
	maxBytes   = 256 << 20 // of a file
)

// Read returns the records of a file. White space within sequences and empty lines are left out.
func Read(r io.Reader) (list []Record, err error) {
	limited := &io.LimitedReader{R: r, N: maxBytes + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	var sequence strings.Builder
	end := func(line int) error {
		if n := len(list); n > 0 {
			if list[n-1].Sequence = sequence.String(); list[n-1].Sequence == "" {
				return fmt.Errorf("line %d: %.40q has no sequence", line, list[n-1].Name)
			}
		}
		sequence.Reset()
		return nil
	}
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		name, header := strings.CutPrefix(line, ">")
		switch {
		case line == "":
		case header:
			if err := end(n); err != nil {
				return nil, err
			}
			if list = append(list, Record{Name: strings.TrimSpace(name)}); len(list) > maxRecords {
				return nil, fmt.Errorf("there are more than %d sequences", maxRecords)
			}
		case len(list) == 0:
			return nil, fmt.Errorf("line %d is %.40q, want > and a name first", n, line)
		default:
			sequence.WriteString(strings.Join(strings.Fields(line), ""))
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d has more than %d bytes", n+1, maxLine)
	case err != nil:
		return nil, err
	case limited.N <= 0:
		return nil, fmt.Errorf("there are more than %d bytes", maxBytes)
	case len(list) == 0:
		return nil, errors.New("there are 0 sequences, want at least 1")
	}
	return list, end(n)
}

// Append adds a record, its sequence in lines of 60.
func Append(to []byte, r Record) []byte {
	to = append(append(append(to, '>'), oneLine.Replace(r.Name)...), '\n')
	for s := r.Sequence; s != ""; {
		n := min(60, len(s))
		to = append(append(to, s[:n]...), '\n')
		s = s[n:]
	}
	return to
}

var oneLine = strings.NewReplacer("\n", " ", "\r", " ")
