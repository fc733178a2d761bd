package weights

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// file returns a safetensors file with that header and n zero bytes of data.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

// length returns 8 bytes that announce a header of n bytes, followed by rest.
func length(n uint64, rest string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, n), rest...)
}

const one = `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`

// tensorA returns a header with one tensor of the given fields.
func tensorA(dtype, shape, offsets string) string {
	return fmt.Sprintf(`{"a":{"dtype":%s,"shape":%s,"data_offsets":%s}}`, dtype, shape, offsets)
}

// Each bad file gives an error with a certain text.
func TestBadFiles(t *testing.T) {
	sameRange := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `%c"%d":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}`, "{,"[min(i, 1)], i)
		}
		return b.String() + "}"
	}
	two := func(offsets1, offsets2 string) string {
		return `{"a":{"dtype":"U8","shape":[4],"data_offsets":` + offsets1 +
			`},"b":{"dtype":"U8","shape":[4],"data_offsets":` + offsets2 + `}}`
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "0 bytes"},
		{"Git LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
			"a Git LFS pointer to a file of 9 bytes"},
		{"web page", []byte("<!DOCTYPE html>"), "a web page"},
		{"seven bytes", make([]byte, 7), "7 bytes"},
		{"length 2^63", length(1<<63, one), "header of 9223372036854775808 bytes"},
		{"length 2^50", length(1<<50, one), "header of 1125899906842624 bytes"},
		{"length 100000001", length(MaxHeader+1, one), "want 1 to 100000000"},
		{"length beyond the file", length(uint64(len(one)+1), one), "the file has 54"},
		{"length zero", length(0, one), "header of 0 bytes"},
		{"not UTF-8", file("\xff", 0), "want UTF-8"},
		{"not UTF-8 in a name", file("{\"a\xff\":{}}", 0), "want UTF-8"},
		{"lone brace", file("{", 0), "unexpected end"},
		{"array", file("[]", 0), "want an object"},
		{"nested at the top", file(strings.Repeat("[", 1_000_000), 0), "JSON is 4 deep, want at most 3"},
		{"nested in a tensor", file(`{"a":`+strings.Repeat("[", 1_000_000), 0),
			"JSON is 4 deep, want at most 3"},
		{"nested in a shape", file(`{"a":{"shape":`+strings.Repeat("[", 1_000_000), 0),
			"JSON is 4 deep, want at most 3"},
		{"duplicate, same offsets", file(one[:len(one)-1]+","+one[1:], 4), `"a" is there twice`},
		{"duplicate, escaped", file(one[:len(one)-1]+`,"\u0061"`+one[4:], 4), `"a" is there twice`},
		{"duplicate, other shape",
			file(one[:len(one)-1]+`,"a":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}}`, 8),
			`"a" is there twice`},
		{"duplicate metadata", file(`{"__metadata__":{},"__metadata__":{}}`, 0),
			`"__metadata__" is there twice`},
		{"duplicate in metadata", file(`{"__metadata__":{"k":"1","k":"1"}}`, 0), `"k" is there twice`},
		{"duplicate field", file(`{"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}}`, 1),
			`"dtype" is there twice`},
		{"key DTYPE", file(strings.Replace(one, "dtype", "DTYPE", 1), 4), `keys are ["DTYPE" "data_offsets" "shape"], want dtype`},
		{"fourth key", file(`{"a":{"x":1,"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, 1),
			`keys are ["data_offsets" "dtype" "shape" "x"], want dtype`},
		{"missing key", file(`{"a":{"dtype":"U8","shape":[1]}}`, 1), `keys are ["dtype" "shape"], want`},
		{"overlap", file(two("[0,4]", "[2,6]"), 6), `tensor "b": data_offsets [2,6] overlap`},
		{"17 100000 on one range", file(sameRange(100_000), 4), "overlap"},
		{"hole", file(two("[0,4]", "[5,9]"), 9),
			`tensor "b": data_offsets [5,9] leave a hole after byte 4`},
		{"hole at the start", file(tensorA(`"U8"`, "[1]", "[1,2]"), 2), "leave a hole after byte 0"},
		{"trailing bytes", file(one, 5), "end at byte 4 of the data, the file has 5"},
		{"trailing JSON", file(one+" {}", 4), `found "{" after the end`},
		{"trailing NUL", file(one+"\x00", 4), "after the end"},
		{"two bytes short", file(one, 2), "data_offsets [0,4], the file has 2 bytes"},
		{"negative offset", file(tensorA(`"F32"`, "[1]", "[-4,0]"), 4), "data_offsets is [-4,0], want"},
		{"reversed offsets", file(tensorA(`"F32"`, "[1]", "[4,0]"), 4),
			"data_offsets [4,0] are reversed"},
		{"offset 2^64", file(tensorA(`"F32"`, "[1]", "[0,18446744073709551616]"), 4),
			"data_offsets is [0,18446744073709551616], want"},
		{"one offset", file(tensorA(`"F32"`, "[1]", "[0]"), 4), "data_offsets has 1 numbers, want 2"},
		{"three offsets", file(tensorA(`"F32"`, "[1]", "[0,4,4]"), 4),
			"data_offsets has 3 numbers, want 2"},
		{"span differs", file(tensorA(`"F32"`, "[2]", "[0,4]"), 4), "span 4 bytes, not shape [2] of F32"},
		{"span of a scalar", file(tensorA(`"F32"`, "[]", "[0,8]"), 8),
			"span 8 bytes, not shape [] of F32"},
		{"shape 2x(2^64-2)", file(tensorA(`"F32"`, "[2,18446744073709551614]", "[0,4]"), 4),
			"shape has dimension 18446744073709551614, want"},
		{"shape 2x(2^63-1)", file(tensorA(`"F32"`, "[2,9223372036854775807]", "[0,4]"), 4),
			"has more than"},
		{"bytes overflow", file(tensorA(`"F32"`, "[4611686018427387904]", "[0,0]"), 0), "span 0 bytes"},
		{"zero first", file(tensorA(`"F32"`, "[0,9223372036854775807,9223372036854775807]", "[0,0]"), 0),
			"has more than"},
		{"zero between", file(tensorA(`"F32"`, "[9223372036854775807,0,9223372036854775807]", "[0,0]"),
			0), "has more than"},
		{"zero last", file(tensorA(`"F32"`, "[9223372036854775807,9223372036854775807,0]", "[0,0]"), 0),
			"has more than"},
		{"dim 2.0", file(tensorA(`"U8"`, "[2.0]", "[0,2]"), 2), "shape is [2.0], want a list of integers"},
		{"dim 2e0", file(tensorA(`"U8"`, "[2e0]", "[0,2]"), 2), "shape is [2e0], want a list of integers"},
		{"dims -1 -2", file(tensorA(`"U8"`, "[-1,-2]", "[0,2]"), 2), "shape is [-1,-2], want a list of integers"},
		{"dim -0", file(tensorA(`"U8"`, "[-0]", "[0,0]"), 0), "shape is [-0], want"},
		{"dim \"2\"", file(tensorA(`"U8"`, `["2"]`, "[0,2]"), 2), `shape is ["2"], want`},
		{"27 65 dims", file(tensorA(`"U8"`, "["+strings.Repeat("1,", 64)+"1]", "[0,1]"), 1),
			"shape has 65 numbers, want 64"},
		{"numeric dtype", file(tensorA("1", "[1]", "[0,1]"), 1), "dtype is 1, want a type's name"},
		{"dtype no name", file(tensorA(`"f 32"`, "[1]", "[0,1]"), 1),
			`dtype is "f 32", want a type's name`},
		{"dtype escaped", file(tensorA(`"F\u0058"`, "[1]", "[0,1]"), 1),
			`dtype is "F\u0058", want a type's name`},
		{"known size differs", file(tensorA(`"F8_E4M3"`, "[2]", "[0,1]"), 1), `not shape [2] of F8_E4M3`},
		{"null", file(`null`, 0), "the value is null, want an object"},
		{"null tensor", file(`{"a":null}`, 0), `tensor "a": the value is null, want an object`},
		{"null in metadata", file(`{"__metadata__":{"k":null}}`, 0), `"k" is null, want a string`},
		{"null type", file(tensorA("null", "[1]", "[0,4]"), 4), "dtype is null, want a type's name"},
		{"null shape", file(tensorA(`"F32"`, "null", "[0,4]"), 4), "shape is null, want a list"},
		{"null dimension", file(tensorA(`"F32"`, "[1,null]", "[0,4]"), 4), "shape is [1,null], want"},
		{"null offsets", file(tensorA(`"F32"`, "[1]", "null"), 4), "data_offsets is null, want a list"},
		{"null offset", file(tensorA(`"F32"`, "[1]", "[null,4]"), 4), "data_offsets is [null,4], want"},
		{"numeric metadata", file(`{"__metadata__":{"k":1}}`, 0),
			`__metadata__: the value is a number, want a string`},
		{"name empty", file(strings.Replace(one, `"a"`, `""`, 1), 4), "name is empty"},
		{"name NUL", file(strings.Replace(one, `"a"`, `"a\u0000"`, 1), 4), "control character"},
		{"name is a path", file(strings.Replace(one, `"a"`, `"../../x"`, 1), 4), "the name is a path"},
		{"name is absolute", file(strings.Replace(one, `"a"`, `"/etc/passwd"`, 1), 4),
			"the name is a path"},
		{"name is long", file(strings.Replace(one, `"a"`, `"`+strings.Repeat("a", 1025)+`"`, 1), 4),
			"name of 1025 bytes"},
	} {
		t.Run("Case"+c.name, func(t *testing.T) {
			_, err := Parse(c.data, "model.safetensors")
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "model.safetensors: ")
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), 600)
		})
	}
}

// A type that this package does not know is an error only when the tensor is used.
func TestUnknownDType(t *testing.T) {
	header := `{"odd":{"dtype":"Q3_X","shape":[5],"data_offsets":[4,7]},` + one[1:len(one)-1] +
		`,"f8":{"dtype":"F8_E5M2","shape":[3],"data_offsets":[7,10]},"f4":{"dtype":"F4","shape":[2],"data_offsets":[10,11]}}`
	set, err := Parse(file(header, 11), "m")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "f4", "f8", "odd"}, set.Names())
	a, _ := set.Get("a")
	require.NoError(t, a.Float32s(make([]float32, 1)))
	odd, _ := set.Get("odd")
	require.Equal(t, DType("Q3_X"), odd.DType)
	require.Equal(t, []int{5}, odd.Shape)
	require.Len(t, odd.Data, 3)
	require.ErrorContains(t, odd.Float32s(make([]float32, 5)), `tensor "odd": dtype is Q3_X, want F32`)
	_, err = odd.Int64s()
	require.ErrorContains(t, err, `tensor "odd": dtype Q3_X is not an integer`)
}

// The file shrinks after it was mapped. Whole missing pages fault; a few missing bytes read as zero
// and only the size shows it.
func TestTruncatedWhileRead(t *testing.T) {
	const n = 1 << 16
	for _, keep := range []int64{100, 1 << 17, 4*n + 50} {
		name := filepath.Join(t.TempDir(), "m.safetensors")
		require.NoError(t, WriteFile(name,
			[]Tensor{{Name: "w", DType: F32, Shape: []int{n}, Data: make([]byte, 4*n)}}, nil))
		set, err := Open(name)
		require.NoError(t, err)
		w, _ := set.Get("w")
		dst := make([]float32, n)
		require.NoError(t, w.Float32s(dst))
		require.NoError(t, os.Truncate(name, keep))
		err = w.Float32s(dst)
		require.ErrorContains(t, err, `tensor "w": `+name+": ")
		require.ErrorContains(t, err,
			map[bool]string{true: "was truncated", false: "file changed from"}[keep < 4*n])
		require.Error(t, w.ReadBytes(make([]byte, 8), 4*n-8))
		require.ErrorContains(t, Write(&bytes.Buffer{}, []Tensor{*w}, nil), `tensor "w"`)
		require.NoError(t, set.Close())
	}
}

// The header is read from the mapping, too.
func TestTruncatedBeforeTheHeader(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m.safetensors")
	require.NoError(t, os.WriteFile(name, file(one, 4), 0o600))
	for keep, want := range map[int64]string{0: "was truncated or",
		5: "file changed from 66 to 5 bytes"} {
		src, err := openSource(name)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(name, keep))
		_, _, err = parseSafetensors(src.data, src)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
		require.NoError(t, src.close())
		require.NoError(t, os.WriteFile(name, file(one, 4), 0o600))
	}
}

func TestRewrittenWhileRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m.safetensors")
	require.NoError(t, os.WriteFile(name, file(one, 4), 0o600))
	set, err := Open(name)
	require.NoError(t, err)
	defer set.Close()
	require.NoError(t, os.WriteFile(name, file(one, 4), 0o600))
	require.NoError(t, os.Chtimes(name, set.sources[0].mtime, set.sources[0].mtime.Add(1e9)))
	a, _ := set.Get("a")
	require.ErrorContains(t, a.Float32s(make([]float32, 1)), "file changed while it was read")
}

// An error about a NaN weight names its tensor.
func TestNaN(t *testing.T) {
	for _, c := range []struct {
		dtype DType
		data  []byte
		want  string
	}{
		{F32, f32(0, float32(math.NaN())), `tensor "w": element 1 is NaN`},
		{BF16, []byte{0, 0, 0xc0, 0xff}, `tensor "w": element 1 is NaN`},
		{F16, []byte{1, 0x7c, 0, 0}, `tensor "w": element 0 is NaN`},
		{F64, binary.LittleEndian.AppendUint64(make([]byte, 8), math.Float64bits(math.NaN())),
			`tensor "w": element 1 is NaN`},
		{F64, binary.LittleEndian.AppendUint64(make([]byte, 8), math.Float64bits(1e300)),
			`tensor "w": element 1 is beyond float32`},
	} {
		w := Tensor{Name: "w", DType: c.dtype, Shape: []int{2}, Data: c.data}
		require.EqualError(t, w.Float32s(make([]float32, 2)), c.want)
	}
}

// The shards of an index are missing or outside its folder.
func TestIndex(t *testing.T) {
	for _, c := range []struct{ index, want string }{
		{`{"weight_map":{"a":"gone.safetensors"}}`, "shard gone.safetensors: "},
		{`{"weight_map":{"a":"../x.safetensors"}}`, `shard "../x.safetensors", want`},
		{`{"weight_map":{"a":"/etc/x.safetensors"}}`, `want a .safetensors`},
		{`{"weight_map":{"a":"dir/x.safetensors"}}`, `want a .safetensors`},
		{`{"weight_map":{"a":"one.safetensors","b":"one.safetensors"}}`,
			`tensors not in the shard it names: "b" (one.safetensors)`},
		{`{"weight_map":{"a":"one.safetensors","b":"same.safetensors"}}`,
			`tensors not in the shard it names: "b" (same.safetensors)`},
		{`{"weight_map":{}}`, "weight_map is empty"},
		{`{"weight_map":{"a":1}}`, "index: "},
		{`{"weight`, "index: "},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, indexName), []byte(c.index), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "one.safetensors"), file(one, 4), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "same.safetensors"), file(one, 4), 0o600))
		_, err := Open(dir)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, filepath.Join(dir, indexName))
		require.NotContains(t, err.Error(), "\n")
		_, err = OpenFS(os.DirFS(dir), ".")
		require.ErrorContains(t, err, c.want)
	}
}

// Valid small files.
func TestMinimal(t *testing.T) {
	for _, header := range []string{"{}", "{}      ", "{ }\n\t\r ", `{"__metadata__":{}}`} {
		set, err := Parse(file(header, 0), "m")
		require.NoError(t, err)
		require.Empty(t, set.Names())
	}
	set, err := Parse(file(tensorA(`"F32"`, "[]", "[0,4]"), 4), "m")
	require.NoError(t, err)
	a, _ := set.Get("a")
	require.Equal(t, 1, a.Numel())
	require.NoError(t, a.Float32s(make([]float32, 1)))

	set, err = Parse(file(tensorA(`"F32"`, "[2,0]", "[0,0]"), 0), "m")
	require.NoError(t, err)
	a, _ = set.Get("a")
	require.Zero(t, a.Numel())
	require.NoError(t, a.Float32s(nil))

	// Any number of empty tensors may be at one offset.
	set, err = Parse(file(`{"x":{"dtype":"U8","shape":[0],"data_offsets":[4,4]},"y":{"dtype":"I64","shape":[0,7],"data_offsets":[0,0]},`+
		`"z":{"dtype":"U8","shape":[0],"data_offsets":[4,4]},`+one[1:], 4), "m")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "x", "y", "z"}, set.Names())
}

func TestLimits(t *testing.T) {
	_, err := Parse(file("{}"+strings.Repeat(" ", MaxHeader-2), 0), "m")
	require.NoError(t, err)

	var b strings.Builder
	for i := range MaxTensors {
		fmt.Fprintf(&b, `%c"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, "{,"[min(i, 1)], i)
	}
	set, err := Parse(file(b.String()+"}", 0), "m")
	require.NoError(t, err)
	require.Len(t, set.Names(), MaxTensors)
	_, err = Parse(file(b.String()+`,"more":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), "m")
	require.ErrorContains(t, err, "more than 100000 tensors")
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, fileName)
	require.NoError(t, os.WriteFile(plain, file(one, 4), 0o600))
	t.Chdir(dir)
	for _, name := range []string{dir, plain, ".", fileName, "./" + fileName} {
		set, err := Open(name)
		require.NoError(t, err, name)
		require.Equal(t, []string{"a"}, set.Names())
		a, ok := set.Get("a")
		require.True(t, ok)
		require.NoError(t, a.Release())
		require.NoError(t, set.ReleaseAll())
		require.NoError(t, a.Float32s(make([]float32, 1)))
		require.NoError(t, set.Close())
		require.NoError(t, set.Close())
		require.NoError(t, set.ReleaseAll())
		require.ErrorContains(t, a.Float32s(make([]float32, 1)), "the set is closed")
	}
	_, err := Open(filepath.Join(dir, "nothing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(t.TempDir())
	require.ErrorContains(t, err,
		"neither model.safetensors nor model.safetensors.index.json is there")
	_, err = Open(os.DevNull)
	require.ErrorContains(t, err, "is a special file, want a file")
	empty := filepath.Join(dir, "empty.safetensors")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err = Open(empty)
	require.ErrorContains(t, err, empty+": 0 bytes")
}

func TestOpenShards(t *testing.T) {
	header := strings.Replace(one, `"a"`, `"b"`, 1)
	fsys := fstest.MapFS{
		"m/" + indexName:     {Data: []byte(`{"metadata":{"total_size":8},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`)},
		"m/1.safetensors":    {Data: file(one, 4)},
		"m/2.safetensors":    {Data: file(header, 4)},
		"single.safetensors": {Data: file(one, 4)},
	}
	for _, name := range []string{"m", "m/" + indexName} {
		set, err := OpenFS(fsys, name)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, set.Names())
	}
	set, err := OpenFS(fsys, "single.safetensors")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, set.Names())

	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, fsys))
	for _, name := range []string{"m", filepath.Join("m", indexName)} {
		set, err := Open(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, set.Names())
		require.NoError(t, set.Close())
	}
}

// An index says which of two copies of a tensor counts, in whichever file: the other is not read.
func TestOverlay(t *testing.T) {
	stale := []byte{0, 0, 0, 0, 0, 0, 0, 0}
	for _, names := range [][2]string{{"base", "overlay"}, {"overlay", "base"}} {
		dir := t.TempDir()
		write := func(name string, data []byte) {
			set := []Tensor{{Name: "a", DType: F32, Shape: []int{2}, Data: data}}
			if name == "base" {
				set = append(set, Tensor{Name: "b", DType: F32, Shape: []int{2}, Data: stale})
			}
			require.NoError(t, WriteFile(filepath.Join(dir, name+".safetensors"), set, nil))
		}
		for _, name := range names {
			data := stale
			if name == names[1] {
				data = []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}
			}
			write(name, data)
		}
		index := fmt.Sprintf(`{"weight_map":{"a":"%s.safetensors","b":"base.safetensors"}}`, names[1])
		require.NoError(t, os.WriteFile(filepath.Join(dir, indexName), []byte(index), 0o600))
		set, err := Open(dir)
		require.NoError(t, err)
		a, _ := set.Get("a")
		values, err := a.Floats()
		require.NoError(t, err)
		require.Equal(t, []float32{1, 2}, values)
		require.NoError(t, set.Close())
	}
}
