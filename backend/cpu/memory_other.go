//go:build !linux

package cpu

// adviseHuge does nothing: only Linux takes such advice.
func adviseHuge([]float32) {}

// mapMemory returns nil, for which storage takes memory of Go's heap.
func mapMemory(int) []byte { return nil }

// unmapMemory has nothing to give back.
func unmapMemory([]byte) {}
