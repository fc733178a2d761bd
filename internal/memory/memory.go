// Package memory reports how much memory a process may still use.
package memory

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Available returns the bytes that are free for this process, and false if unknown: what Linux
// reports as available or, if it is less, the rest of the limit of the process's control group.
func Available() (free int64, ok bool) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	free, ok = findNumber(data, "MemAvailable:")
	free <<= 10 // it is in kB
	left, limited := groupMemory("/sys/fs/cgroup")
	if ok && limited {
		free = min(free, left)
	}
	return free, ok
}

// findNumber returns the number after a word at the start of a line.
func findNumber(data []byte, word string) (int64, bool) {
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) >= 2 && string(fields[0]) == word {
			n, err := strconv.ParseInt(string(fields[1]), 10, 53)
			return n, err == nil
		}
	}
	return 0, false
}

// groupMemory returns what is left of a control group's limit. Memory that can be reclaimed, such
// as cached files, does not count as used. ok is false if there is no limit ("max").
func groupMemory(dir string) (left int64, ok bool) {
	data, err := os.ReadFile(filepath.Join(dir, "memory.max"))
	if err != nil {
		return 0, false
	}
	limit, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	if err != nil {
		return 0, false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0, false
	}
	used, ok := findNumber(stat, "anon")
	return max(0, limit-used), ok
}
