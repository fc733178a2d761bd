// Package fasta reads and writes FASTA, the format of sequences of residues (Pearson and Lipman
// 1988): a line with > and a name, then the sequence in one or several lines.
package fasta

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"unmask/internal/sniff"
	"unmask/internal/textfile"
)

// Record is one sequence. Name is the whole line after >.
type Record struct{ Name, Sequence string }

// IsFile reports whether a file's name says that it is FASTA.
func IsFile(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".fasta", ".fas", ".fa", ".faa", ".fna", ".ffn", ".mpfa", ".pep":
		return true
	}
	return false
}

// HasHeader reports whether a file whose first bytes are head is FASTA: its first line begins with
// >, or with ; and a line with > follows.
func HasHeader(head []byte) bool {
	head = bytes.TrimLeft(textfile.TrimMark(head), " \t\r\n")
	comment := bytes.HasPrefix(head, []byte(";"))
	return bytes.HasPrefix(head, []byte(">")) ||
		comment && (bytes.Contains(head, []byte("\n>")) || bytes.Contains(head, []byte("\r>")))
}

// Limits of Read.
const (
	maxLine    = 16 << 20  // bytes
	maxRecords = 1 << 20   // sequences
	maxBytes   = 256 << 20 // of a file
)

// Read returns the records of a file. White space within sequences, empty lines, lines that begin
// with ; (comments) and a byte order mark are left out. Lines end as on Unix, Windows or, with CR
// alone, as Excel for Mac writes them.
func Read(r io.Reader) (list []Record, err error) {
	limited := &io.LimitedReader{R: r, N: maxBytes + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	lines.Split(anyLine)
	var sequence strings.Builder
	// finishRecord gives the last record its sequence.
	finishRecord := func(line int) error {
		if len(list) > 0 {
			last := &list[len(list)-1]
			last.Sequence = sequence.String()
			if last.Sequence == "" {
				return fmt.Errorf("line %d: %.40q has no sequence", line, last.Name)
			}
		}
		sequence.Reset()
		return nil
	}

	n := 0
	for lines.Scan() {
		line := lines.Text()
		n++
		if n == 1 {
			if err := checkFirstLine(line); err != nil {
				return nil, err
			}
		}
		line = strings.TrimSpace(textfile.TrimMark(line))
		name, header := strings.CutPrefix(line, ">")
		switch {
		case line == "", line[0] == ';':
		case header:
			if err := finishRecord(n); err != nil {
				return nil, err
			}
			list = append(list, Record{Name: strings.TrimSpace(name)})
			if len(list) > maxRecords {
				return nil, fmt.Errorf("there are more than %d sequences, want at most that", maxRecords)
			}
		case len(list) == 0:
			return nil, fmt.Errorf("line %d is %.40q, want > and a name first", n, line)
		default:
			sequence.WriteString(strings.Join(strings.Fields(line), ""))
		}
	}

	err = lines.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d has more than %d bytes", n+1, maxLine)
	case err != nil:
		return nil, err
	case limited.N <= 0:
		return nil, fmt.Errorf("there are more than %d bytes, want at most that", maxBytes)
	case len(list) == 0:
		return nil, errors.New("there are 0 sequences, want at least 1")
	}
	return list, finishRecord(n)
}

// UnmaskLetters makes small letters capital, and returns the number of records that had any.
// Programs that look for repeats write them small (soft masking); they are the same residues.
func UnmaskLetters(list []Record) (records int) {
	for i := range list {
		// Byte by byte, so that what is not UTF-8 stays so, and is refused.
		upper := []byte(list[i].Sequence)
		for j, c := range upper {
			if 'a' <= c && c <= 'z' {
				upper[j] = c - 'a' + 'A'
			}
		}
		if string(upper) != list[i].Sequence {
			list[i].Sequence = string(upper)
			records++
		}
	}
	return records
}

// anyLine is a bufio.SplitFunc of lines that end in LF, CR LF or CR. Numbers of lines are right in
// all three: the LF of a CR LF is cut with its line.
func anyLine(data []byte, end bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0 && end && len(data) > 0:
		return len(data), data, nil
	case i < 0 || data[i] == '\r' && i+1 == len(data) && !end: // an LF may follow
		return 0, nil, nil
	case data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n':
		return i + 2, data[:i], nil
	}
	return i + 1, data[:i], nil
}

// checkFirstLine returns an error that says what a file is, if its first line shows that it is not
// FASTA.
func checkFirstLine(line string) error {
	switch {
	case strings.HasPrefix(line, "\xff\xfe"), strings.HasPrefix(line, "\xfe\xff"):
		return errors.New("the file is UTF-16, want UTF-8")
	case strings.HasPrefix(line, "\x1f\x8b"):
		return errors.New("the file is compressed by gzip, want it unpacked")
	}
	return sniff.CheckPlaceholder([]byte(line))
}

// Append appends a record to dst, its sequence in lines of 60 letters, and returns dst.
func Append(dst []byte, r Record) []byte {
	dst = append(dst, '>')
	dst = append(dst, oneLine.Replace(r.Name)...)
	dst = append(dst, '\n')
	sequence := r.Sequence
	for sequence != "" {
		n := min(60, len(sequence))
		dst = append(dst, sequence[:n]...)
		dst = append(dst, '\n')
		sequence = sequence[n:]
	}
	return dst
}

// oneLine replaces line breaks in a name, which would end its line.
var oneLine = strings.NewReplacer("\n", " ", "\r", " ")
