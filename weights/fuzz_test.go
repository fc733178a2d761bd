package weights

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzParse feeds any bytes: a one-line error, or tensors that can be converted and written again.
func FuzzParse(f *testing.F) {
	f.Add(file(one, 4))
	f.Add(file(tensorA(`"F16"`, "[2,0]", "[0,0]"), 0))
	f.Add(file(tensorA(`"Q3_X"`, "[9]", "[0,3]"), 3))
	f.Add(file(tensorA(`"I64"`, "[]", "[0,8]"), 8))
	f.Add(file(`{"__metadata__":{"format":"pt"},`+one[1:]+"  ", 4))
	f.Add(file(`{"a":{"dtype":"F32"`, 4))
	f.Add(length(1<<63, one))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := Parse(data, "m")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("error of many lines: %q", err)
			}
			return
		}
		var tensors []Tensor
		for _, name := range set.Names() {
			x, _ := set.Get(name)
			if x.DType.IsFloat() {
				_ = x.Float32s(make([]float32, x.Numel()))
			}
			if x.DType.IsInt() {
				if _, err := x.Int64s(); err != nil && x.DType != U64 {
					t.Fatal(err)
				}
			}
			if x.DType.Bits() > 0 {
				tensors = append(tensors, *x)
			}
		}
		var out bytes.Buffer
		if err := Write(&out, tensors, set.Metadata()); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(out.Bytes(), "again")
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Names()) != len(tensors) {
			t.Fatalf("%d tensors after writing, %d before", len(again.Names()), len(tensors))
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":8},"weight_map":{"a":"1.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../1.safetensors"}}`))
	f.Add([]byte(`{"weight_map":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		where, err := parseIndex(data)
		if err != nil {
			return
		}
		for _, shard := range listShards(where) {
			if strings.ContainsAny(shard, `/\`) || strings.HasPrefix(shard, ".") {
				t.Fatalf("shard %q leaves the directory", shard)
			}
		}
	})
}
