package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// entry is a tensor's entry in the file's form.
type entry struct {
	name   string
	dims   []uint64 // fastest first
	typ    uint32
	offset uint64
}

// bytesOf returns a value's type and bytes; a []byte has both already.
func bytesOf(v any) []byte {
	le := binary.LittleEndian
	switch v := v.(type) {
	case []byte:
		return v
	case bool:
		b := le.AppendUint32(nil, 7)
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	case uint32:
		return le.AppendUint32(le.AppendUint32(nil, 4), v)
	case int32:
		return le.AppendUint32(le.AppendUint32(nil, 5), uint32(v))
	case float32:
		return le.AppendUint32(le.AppendUint32(nil, 6), math.Float32bits(v))
	case string:
		return append(le.AppendUint64(le.AppendUint32(nil, 8), uint64(len(v))), v...)
	}
	panic(fmt.Sprintf("%T", v))
}

// build returns a file with these keys and tensors and 64 bytes of data.
func build(keys map[string]any, tensors ...entry) []byte {
	le := binary.LittleEndian
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	b = le.AppendUint64(b, uint64(len(tensors)))
	b = le.AppendUint64(b, uint64(len(keys)))
	var names []string
	for k := range keys {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		b = append(append(le.AppendUint64(b, uint64(len(k))), k...), bytesOf(keys[k])...)
	}
	for _, t := range tensors {
		b = append(le.AppendUint64(b, uint64(len(t.name))), t.name...)
		b = le.AppendUint32(b, uint32(len(t.dims)))
		for _, d := range t.dims {
			b = le.AppendUint64(b, d)
		}
		b = le.AppendUint64(le.AppendUint32(b, t.typ), t.offset)
	}
	for len(b)%32 != 0 {
		b = append(b, 0)
	}
	return append(b, make([]byte, 64)...)
}

// model returns a file of an architecture, with further keys.
func model(arch string, more map[string]any) *File {
	keys := map[string]any{"general.architecture": arch}
	for _, k := range []string{"block_count", "embedding_length", "feed_forward_length",
		"context_length"} {
		keys[arch+"."+k] = uint32(4)
	}
	keys[arch+".attention.head_count"] = uint32(2)
	for k, v := range more {
		keys[k] = v
	}
	f, err := Parse(build(keys, entry{"token_embd.weight", []uint64{1, 8}, 0, 0},
		entry{"blk.0.attn_q.weight", []uint64{1, 4}, 0, 32}), "m.gguf")
	if err != nil {
		panic(err)
	}
	return f
}

func join(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, p)
		case uint64:
			b = binary.LittleEndian.AppendUint64(b, p)
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// bad are files and what their errors contain.
var bad = map[string]struct {
	data []byte
	want string
}{
	"empty":    {nil, "the magic has 4 bytes, the header has 0 more"},
	"web page": {[]byte("<html><body>"), "a web page, want the file"},
	"Git LFS pointer": {[]byte("version https://git-lfs.github.com/spec/v1\noid x\nsize 12\n"),
		"a Git LFS pointer to a file of 12 bytes"},
	"another magic": {[]byte("GGML\x03\x00\x00\x00"),
		`the first bytes are "GGML", want "GGUF"`},
	"version 1": {join("GGUF", uint32(1)), "the version is 1, want 2 or 3"},
	"big-endian": {[]byte("GGUF\x00\x00\x00\x03"),
		"the version is 50331648, want 2 or 3"},
	"2^60 tensors": {join("GGUF", uint32(3), uint64(1<<60), uint64(0)),
		"tensors are 1152921504606846976, want 100000 at most"},
	"more tensors than bytes": {join("GGUF", uint32(3), uint64(1000), uint64(0)),
		"tensors are 1000, the header has room for 0"},
	"2^63 keys": {join("GGUF", uint32(3), uint64(0), uint64(1<<63)),
		"keys are 9223372036854775808, want 100000 at most"},
	"a key's name of 2^40": {join("GGUF", uint32(3), uint64(0), uint64(1), uint64(1<<40),
		"abcdefgh"), "a key's name has 1099511627776 bytes, want 1024 at most"},
	"an empty key": {build(map[string]any{"": uint32(1)}),
		`the name is "", want UTF-8 text`},
	"a key that is no text": {build(map[string]any{"\xff": uint32(1)}),
		`the name is "\xff", want UTF-8 text`},
	"a key twice": {join("GGUF", uint32(3), uint64(0), uint64(2), uint64(1), "a",
		uint32(4), uint32(1), uint64(1), "a", uint32(4), uint32(1), "xxxxxxxx"),
		`key "a" is there twice`},
	"a type of 13": {build(map[string]any{"a": join(uint32(13))}),
		`key "a": type is 13, want 0 to 12`},
	"a boolean of 2": {build(map[string]any{"a": join(uint32(7), "\x02")}),
		"a boolean is 2, want 0 or 1"},
	"a text of 2^40": {build(map[string]any{"a": join(uint32(8), uint64(1<<40))}),
		"the text has 1099511627776 bytes, want 268435456 at most"},
	"a text beyond the file": {build(map[string]any{"a": join(uint32(8), uint64(1<<20))}),
		"the text has 1048576 bytes, the header has"},
	"an array of 2^60": {build(map[string]any{"a": join(uint32(9), uint32(4),
		uint64(1<<60))}), "elements are 1152921504606846976, want 268435456 at most"},
	"an array beyond the file": {build(map[string]any{"a": join(uint32(9), uint32(8),
		uint64(1<<20))}), "elements are 1048576, the header has room for"},
	"an array of arrays": {build(map[string]any{"a": join(uint32(9), uint32(9), uint64(1))}),
		"elements have type 9, want 0 to 12 and no arrays"},
	"an element beyond the file": {build(map[string]any{"a": join(uint32(9), uint32(8), uint64(2),
		uint64(0), uint64(99999))}), "element 1: the text has 99999 bytes"},
	"alignment 0": {build(map[string]any{alignmentKey: uint32(0)}),
		"key general.alignment is 0, want a power of two from 8 to 65536"},
	"alignment 48": {build(map[string]any{alignmentKey: uint32(48)}),
		"key general.alignment is 48"},
	"alignment of text": {build(map[string]any{alignmentKey: "32"}),
		"key general.alignment is a text, want an integer"},
	"no dimensions": {build(nil, entry{"w", nil, 0, 0}),
		`"w": dimensions are 0, want 1 to 4`},
	"2^31 dimensions": {build(nil, entry{"w", []uint64{1, 1, 1, 1, 1}, 0, 0}),
		`"w": dimensions are 5, want 1 to 4`},
	"a dimension of 0": {build(nil, entry{"w", []uint64{4, 0}, 0, 0}),
		`"w": dimension 2 is 0`},
	"a dimension of 2^63": {build(nil, entry{"w", []uint64{1 << 63}, 0, 0}),
		`"w": dimension 1 is 9223372036854775808`},
	"a product of 2^64": {build(nil, entry{"w", []uint64{1 << 32, 1 << 32}, 0, 0}),
		`"w": dimension 2 is 4294967296 after 4294967296 elements`},
	"a type that is unknown": {build(nil, entry{"w", []uint64{32}, 99, 0}),
		`"w": type is 99, want F32, F16`},
	"a type that we have not": {build(nil, entry{"w", []uint64{32}, 16, 0}),
		`"w": type is IQ2_XXS, want F32, F16`},
	"half a block": {build(nil, entry{"w", []uint64{48}, 8, 0}),
		`"w": rows have 48 values, want a multiple of 32 for Q8_0`},
	"an offset of 2^63": {build(nil, entry{"w", []uint64{4}, 0, 1 << 63}),
		`tensor "w": 16 bytes from byte 9223372036854775808 on, the file has 64`},
	"an offset that wraps": {build(nil, entry{"w", []uint64{4}, 0, 1<<64 - 32}),
		`tensor "w": 16 bytes from byte 18446744073709551584 on`},
	"an offset that is odd": {build(nil, entry{"w", []uint64{4}, 0, 4}),
		`tensor "w": offset is 4, want a multiple of 32`},
	"tensors that overlap": {build(nil, entry{"v", []uint64{12}, 0, 0},
		entry{"w", []uint64{4}, 0, 32}), `tensor "w": offset is 32, want 48 at least`},
	"tensors in one place": {build(nil, entry{"v", []uint64{4}, 0, 0},
		entry{"w", []uint64{4}, 0, 0}), `tensor "w": offset is 0, want 16 at least`},
	"a tensor beyond the file": {build(nil, entry{"w", []uint64{17}, 0, 0}),
		`tensor "w": 68 bytes from byte 0 on, the file has 64`},
	"a name twice": {build(nil, entry{"w", []uint64{4}, 0, 0},
		entry{"w", []uint64{4}, 0, 32}), `tensor "w" is there twice`},
	"a name of 2^40": {join("GGUF", uint32(3), uint64(1), uint64(0), uint64(1<<40),
		strings.Repeat("x", 64)), "the name has 1099511627776 bytes, want 1024 at most"},
	"a name that is a path": {build(nil, entry{"/w", []uint64{4}, 0, 0}), "the name is a path"},
	"a name with a control": {build(nil, entry{"a\nb", []uint64{4}, 0, 0}),
		"control character in the name"},
	"a name of bytes that are no": {build(nil, entry{"\xff", []uint64{4}, 0, 0}),
		"the name is not UTF-8"},
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.data, "m.gguf")
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "m.gguf: ")
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), 300)
			path := filepath.Join(dir, "f.gguf")
			require.NoError(t, os.WriteFile(path, c.data, 0o600))
			_, err = Open(path)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, path)
		})
	}
}

// A file cut anywhere gives an error, or has the bytes of all its tensors.
func TestCut(t *testing.T) {
	whole, err := os.ReadFile("testdata/types.gguf")
	require.NoError(t, err)
	for n := 0; n < len(whole); n += 1 + n/64 {
		_, err := Parse(whole[:n], "m.gguf")
		require.Error(t, err, "cut at %d", n)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err = Open("testdata")
	require.ErrorContains(t, err, "testdata is a directory, want a file")
	_, err = Open("testdata/none.gguf")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A file that claims large sizes causes no large allocation.
func TestAllocations(t *testing.T) {
	n := testing.AllocsPerRun(1, func() {
		for _, c := range bad {
			_, _ = Parse(c.data, "m.gguf")
		}
	})
	require.Less(t, n, 5000.0)
}

// A NaN or infinite scale is an error that names tensor and row.
func TestScales(t *testing.T) {
	data := build(nil, entry{"w", []uint64{32, 1}, 8, 0})
	data[len(data)-64+1] = 0x7c // an infinite d
	f, err := Parse(data, "m.gguf")
	require.NoError(t, err)
	w, _ := f.Set.Get("w")
	require.EqualError(t, w.ReadBlocks(make([]byte, 34), 0),
		`tensor "w": row 0 has a scale that is not finite`)
	_, err = w.Floats() // infinity times 0
	require.ErrorContains(t, err, `tensor "w": element 0 is NaN`)
	require.ErrorContains(t, w.ReadFloat32s(make([]float32, 16), 0), "want whole blocks of 32")
}

// FuzzParse feeds any bytes: a one-line error, or a file whose keys and tensors can be read.
func FuzzParse(f *testing.F) {
	for _, c := range bad {
		f.Add(c.data)
	}
	for _, name := range []string{"testdata/types.gguf", "testdata/llada-tiny.gguf"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:min(len(data), 8192)])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data, "m")
		if err == nil {
			for _, k := range file.Keys() {
				_, _ = file.Int(k)
				_, _ = file.Float(k)
				_, _ = file.Bool(k)
				_, _ = file.Text(k)
				_, _ = file.Texts(k)
				_, _ = file.Ints(k)
			}
			for _, n := range file.Set.Names() {
				if x, _ := file.Set.Get(n); x.DType.IsFloat() {
					_, _ = x.Floats()
				}
			}
			_, _, err = file.Model()
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Fatalf("error of many lines: %q", err)
		}
	})
}
