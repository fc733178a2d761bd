//go:build (amd64 || arm64) && !purego

package screen

import "unsafe"

// from returns the 16 bits of the line that begins at element first.
func (s *Set) from(first int) *uint16 {
	return &(*[Size / line]uint16)(unsafe.Pointer(s))[first/line]
}
