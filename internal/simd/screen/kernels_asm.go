//go:build (amd64 || arm64) && !purego

package screen

import "unsafe"

// from returns the 16 bits of the line that begins at element at.
func (s *Set) from(at int) *uint16 { return &(*[Size / line]uint16)(unsafe.Pointer(s))[at/line] }
