package runs

import (
	"crypto/sha256"
	"encoding/hex"

	"unmask/internal/durable"
)

// Digest returns the SHA-256 of output i, which may still wait for its turn; ok is false where it
// is not there.
func (f *Folder) Digest(i int) (digest string, ok bool) {
	e, ok := f.Entry(i)
	return e.SHA256, ok
}

// DigestOf returns the Digest of an output of these bytes.
func (f *Folder) DigestOf(data []byte) string { return DigestOf(data) }

// DigestOf returns the SHA-256 of an output of a folder.
func DigestOf(data []byte) string { return hash(data) }

// DigestOfLine returns the SHA-256 of a line with its newline.
func DigestOfLine(line []byte) string { return hash(append(line[:len(line):len(line)], '\n')) }

// Pending returns the lines that a run of n still has to make, without those that wait for their
// turn.
func (l *Lines) Pending(n int) []int { return l.lines.Pending(n) }

// Take makes line i durable, without its newline, whatever came before it: unlike what Put was
// given early, it is there after a crash. i is one of Pending.
func (l *Lines) Take(i int, seed uint64, line []byte) error { return l.lines.Take(i, seed, line) }

// Retract takes back lines that turned out to be wrong: they are pending again.
func (l *Lines) Retract(bad []int) error { return l.lines.Retract(bad) }

// Digest returns the SHA-256 of line i with its newline, which may still wait for its turn; ok is
// false where it is not there.
func (l *Lines) Digest(i int) (digest string, ok bool) {
	e, ok := l.lines.Entry(i)
	return e.SHA256, ok
}

// DigestOf returns the Digest of this line.
func (l *Lines) DigestOf(line []byte) string {
	return DigestOfLine(line)
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Remove removes a run's folder.
func Remove(dir string) error { return durable.Remove(dir) }
