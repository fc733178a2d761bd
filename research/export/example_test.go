package export_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"unmask"
	"unmask/research/export"
	"unmask/weights"
)

// Write the log-probabilities of an exact model for one sequence of masks.
func ExampleLogits() {
	dir, err := os.MkdirTemp("", "export")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	m, err := unmask.Load(context.Background(), "oracle:markov:length=4,tokens=3", unmask.Options{})
	if err != nil {
		panic(err)
	}
	var data []byte
	for range 4 {
		data = binary.LittleEndian.AppendUint64(data, uint64(m.Spec().Mask))
	}
	in, out := filepath.Join(dir, "tokens.safetensors"), filepath.Join(dir, "logits.safetensors")
	tokens := weights.Tensor{Name: "tokens", DType: weights.I64, Shape: []int{1, 4}, Data: data}
	if err := weights.WriteFile(in, []weights.Tensor{tokens}, nil); err != nil {
		panic(err)
	}
	if err := export.WriteLogits(context.Background(), m, in, out); err != nil {
		panic(err)
	}
	set, err := weights.Open(out)
	if err != nil {
		panic(err)
	}
	defer set.Close()
	logits, _ := set.Get("logits")
	fmt.Println(logits.DType, logits.Shape)
	// Output: F32 [1 4 3]
}
