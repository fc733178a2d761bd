//go:build !linux

package cpu

func adviseHuge([]float32) {}

func mapMemory(int) []byte { return nil }

func unmapMemory([]byte) {}
