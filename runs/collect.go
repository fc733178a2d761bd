package runs

import (
	"crypto/sha256"
	"encoding/hex"
)

// DigestOf returns the SHA-256 of an output.
func DigestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// DigestOfLine returns the SHA-256 of a line with its newline.
func DigestOfLine(line []byte) string { return DigestOf(append(line[:len(line):len(line)], '\n')) }
