package runs

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest returns the SHA-256 of output i, even if it still waits for its turn; ok is false if there
// is none.
func (f *Folder) Digest(i int) (digest string, ok bool) {
	e, ok := f.Entry(i)
	return e.SHA256, ok
}

// DigestOf returns the Digest of an output with these bytes.
func (f *Folder) DigestOf(data []byte) string { return DigestOf(data) }

// DigestOf returns the SHA-256 of an output.
func DigestOf(data []byte) string { return hash(data) }

// DigestOfLine returns the SHA-256 of a line with its newline.
func DigestOfLine(line []byte) string { return hash(append(line[:len(line):len(line)], '\n')) }

// Pending returns which of the first n lines are still to be made, without those that wait for
// their turn.
func (l *Lines) Pending(n int) []int { return l.lines.Pending(n) }

// Take writes line i, without its newline, to the disk, even if earlier lines are missing; unlike
// early lines of Put, it survives a crash. i must be one of Pending.
func (l *Lines) Take(i int, seed uint64, line []byte) error { return l.lines.Take(i, seed, line) }

// Digest returns the SHA-256 of line i with its newline, even if it still waits for its turn; ok is
// false if there is none.
func (l *Lines) Digest(i int) (digest string, ok bool) {
	e, ok := l.lines.Entry(i)
	return e.SHA256, ok
}

// DigestOf returns the Digest of a line.
func (l *Lines) DigestOf(line []byte) string {
	return DigestOfLine(line)
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
