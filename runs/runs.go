// Package runs keeps the output of long runs, a folder of files or one file of lines, with a
// manifest of finished outputs. A run may stop at any point: by a signal, a full disk or a power
// cut. Started again with the same Settings it continues, and its output is byte for byte that of
// an uninterrupted run.
//
// Each output is written in this order: write a temporary file, fsync, rename, fsync the directory,
// then append the manifest line {index, seed, sha256} and fsync it. So a crash cannot take back an
// output that has a line, and an output without a line is made again.
package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
)

// fileExtension ends the names of a folder's outputs.
const fileExtension = ".png"

// OpenFolder opens, begins or continues in dir a run of n outputs, or a shard of one. Files are
// numbered as in the whole run. A shard cannot be continued with another n, unlike a whole run,
// because n decides which outputs it has. The directory that holds a shard is created if it is
// missing.
//
// It returns an error for a run with other settings, for a folder that is not a run's, and for one
// that another process is writing. It checks the sizes of outputs only: a listed file that is
// missing or empty is in Faults and Pending. Verify reads everything.
func OpenFolder(dir string, s Settings, shard Shard, n int) (*Folder, error) {
	if err := shard.makeParent(dir); err != nil {
		return nil, err
	}
	return openFolder(osFiles{}, dir, s, shard.part(n))
}

// OpenLines opens, begins or continues a run in the file name. It treats shards and other runs as
// [OpenFolder] does. Listed lines are read and must match the manifest; what follows the last of
// them was being written when the run stopped, and is cut off. An error says what is in the file
// instead: another run, other settings, or lines that do not match.
func OpenLines(name string, s Settings, shard Shard, n int) (*Lines, error) {
	if err := shard.makeParent(name); err != nil {
		return nil, err
	}
	return openLines(osFiles{}, name, s, shard.part(n))
}

// makeParent creates the directory that holds the shard at name, and other shards. A whole run has
// a place that its user chose and that must exist.
func (s Shard) makeParent(name string) error {
	if s.Whole() {
		return nil
	}
	return os.MkdirAll(filepath.Dir(filepath.Clean(name)), 0o777)
}

// Verify compares every output of the run at name, a folder or a file of lines, with the manifest.
// It changes nothing. What does not match is in the Report; an error is that of reading.
func Verify(name string) (*Report, error) { return verify(osFiles{}, name) }

// OpenLog opens or creates the log at name, whose lock the caller holds. A new one begins with the
// line header, which appears together with the file. data is the whole content; the caller checks
// its WholeLines and removes what follows them with Cut.
func OpenLog(name string, header []byte) (_ *Log, data []byte, err error) {
	return openLog(osFiles{}, name, header)
}

// LockBeside locks the file at name against other processes, with a hidden lock file beside it. It
// fails at once if another process has the lock.
func LockBeside(name string) (unlock func() error, err error) {
	return lockBeside(osFiles{}, name)
}

// DigestOf returns the SHA-256 of an output in hexadecimal digits.
func DigestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// DigestOfLine returns the SHA-256 of a line together with the newline that follows it in a file.
func DigestOfLine(line []byte) string { return DigestOf(append(line[:len(line):len(line)], '\n')) }
