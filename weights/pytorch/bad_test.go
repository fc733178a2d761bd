package pytorch

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A good checkpoint, which the cases below damage.
func TestBuiltCheckpoint(t *testing.T) {
	c := accepted(t, checkpoint(state(goodTensor)))
	require.Len(t, c.Tensors(), 1)
	require.Equal(t, "w", c.Tensors()[0].Name)
	require.Equal(t, []int{2, 2}, c.Tensors()[0].Shape)
}

func TestPNG(t *testing.T) {
	refused(t, []byte("version https://git-lfs.github.com/spec/v1\nsize 9\n"), "a Git LFS pointer")
	refused(t, []byte("<!DOCTYPE html><html></html>"), "a web page, want the file")
	refused(t, []byte("\x89PNG\r\n\x1a\n0000000000000000000000000"), "not a PyTorch checkpoint")
}

func TestEmpty(t *testing.T) {
	refused(t, nil, "the file is empty")
	_, err := Open(written(t, nil))
	require.ErrorContains(t, err, "model.pth: the file is empty")
	_, err = Open(t.TempDir())
	require.ErrorContains(t, err, "want a file")
}

func TestLegacyFiles(t *testing.T) {
	tar := make([]byte, 1024)
	copy(tar, "sys_info")
	copy(tar[257:], "ustar")
	refused(t, tar, "a legacy PyTorch tar file")
	refused(t, []byte("\x80\x02}q."), "a bare pickle file")
	refused(t, zipOf(file{name: "a/x", data: []byte("x")}), "record a/data.pkl is missing")
	refused(t, zipOf(file{name: "a/constants.pkl", data: []byte("x")}), "TorchScript")
}

func TestTruncated(t *testing.T) {
	whole := checkpoint(state(goodTensor))
	for n := range whole {
		_, err := readCheckpoint(bytes.NewReader(whole[:n]), int64(n))
		require.Error(t, err, n)
		// The same if the file shrinks after it was opened.
		_, err = readCheckpoint(bytes.NewReader(whole[:n]), int64(len(whole)))
		require.Error(t, err, n)
	}
}

func TestZipFlagsAndHeaders(t *testing.T) {
	pkl := []byte(state(goodTensor))
	with := func(f file) []byte {
		f.name, f.data = "a/data.pkl", pkl
		return zipOf(f, file{name: "a/data/0", data: make([]byte, 16)})
	}
	for _, flag := range []uint16{0x1, 0x20, 0x40} {
		refused(t, with(file{flags: flag}), "it is encrypted")
	}
	refused(t, with(file{crc: 1}), `record "a/data.pkl" is damaged`)
	refused(t, with(file{local: "a/data.pkL"}), `local header is of "a/data.pkL"`)
	refused(t, with(file{localSize: 3}), "local header and directory disagree")
	refused(t, with(file{declared: 1 << 30}), "beyond the file")
	refused(t, with(file{declared: math.MaxUint32}), "zip: not a valid zip file")
	refused(t, zipOf(file{name: "a/data.pkl", data: pkl}, file{name: "a/data/0", data: pkl, at: 1}),
		`local header is of "a/data.pkl"`)

	// A file without any CRC is read; one with only some missing is damaged.
	none := func(files ...file) []byte {
		for i := range files {
			files[i].crc = -crc32.ChecksumIEEE(files[i].data)
		}
		return zipOf(files...)
	}
	accepted(t, none(file{name: "a/data.pkl", data: pkl},
		file{name: "a/data/0", data: make([]byte, 16)}))
	refused(t, with(file{crc: -crc32.ChecksumIEEE(pkl)}), `record "a/data.pkl" is damaged`)

	// A storage's CRC is compared when its bytes are read.
	bad := checkpoint(state(goodTensor))
	bad[bytes.Index(bad, []byte("a/data/0"))+len("a/data/0")] = 1
	c := accepted(t, bad)
	_, err := c.Tensors()[0].Open()
	require.ErrorContains(t, err, `record "a/data/0" is damaged`)

	good := checkpoint(state(goodTensor))
	end := len(good) - 22
	for at, want := range map[int]string{10: "zip directory: ", 20: "no end record"} {
		bad := bytes.Clone(good)
		bad[end+at]++
		refused(t, bad, want)
	}
	many := bytes.Clone(good)
	binary.LittleEndian.PutUint16(many[end+10:], 9)
	refused(t, many, "zip directory: ")
}

func TestNames(t *testing.T) {
	pkl := file{name: "a/data.pkl", data: []byte(state("N"))}
	for name, want := range map[string]string{
		"a/data.pkl": "is there twice", "b/data.pkl": `is outside the folder ` +
			`"a"`, "../data.pkl": "want names",
		"a/../data.pkl": "want names", "data.pkl": "want names", "/a/x": "want " +
			"names", "a//x": "want names",
		"a/x\x00": "want names", `a\x`: "want names", "a/\xff": "want names", "a/": "want names",
	} {
		refused(t, zipOf(pkl, file{name: name, data: []byte("x")}), want)
	}
}

func TestDeflatedZeros(t *testing.T) {
	// 40 MB of deflated zeros that claim to be 40 GB are refused before anything is inflated.
	refused(t, zipOf(file{name: "a/data.pkl", data: make([]byte, 1000), method: 8}),
		"compression method 8, want 0")
	refused(t, zipOf(file{name: "a/data.pkl", data: make([]byte, MaxPickle+1)}), "want 16777216")
	atLimit := append([]byte("\x80\x02"), bytes.Repeat([]byte("(1"), MaxValues/2)...)
	refused(t, checkpoint(string(atLimit)), "bytes are wanted, the pickle has 0 more")
	refused(t, checkpoint("\x80\x02"+strings.Repeat("]", MaxValues+1)), "more than 4194304 values")
}

func TestNumel(t *testing.T) {
	for _, n := range []int64{-5, 1 << 62, 5, math.MaxInt64, math.MinInt64} {
		refused(t, checkpoint(state(storageOf("FloatStorage", n))), `storage "0" has`)
	}
	refused(t, checkpoint(state(storageOf("DoubleStorage", 3))), "of 8 bytes, its record 16 bytes")
	odd := strings.Replace(state(goodTensor), "FloatStorage", "ComplexFloatStorage", 1)
	refused(t, checkpoint(odd), `tensor "w" is a tensor of torch.ComplexFloatStorage, want one `+
		`of floats`)
	refused(t, checkpoint(state(tup(str("storage"), name("torch", "FloatStorage"), str("7"),
		str("cpu"), num(1))+"Q")), "has no record a/data/7")
	refused(t, checkpoint(state(tup(str("x"))+"Q")), "persistent id")
	refused(t, checkpoint(state("]Q")), "persistent id is a list")
}

func TestViews(t *testing.T) {
	for _, c := range []struct {
		offset        int64
		shape, stride string
	}{
		{1, tup(num(2), num(2)), tup(num(2), num(1))},
		{5, tup(num(0)), tup(num(1))},
		{-1, tup(num(1)), tup(num(1))},
		{math.MaxInt64, tup(num(1)), tup(num(1))},
		{0, tup(num(2), num(2)), tup(num(3), num(1))},
		{0, tup(num(2)), tup(num(math.MaxInt64))},
		{0, tup(num(2), num(2)), tup(num(math.MaxInt64), num(math.MaxInt64))},
		{0, tup(num(-1)), tup(num(1))},
		{0, tup(num(2)), tup(num(-1))},
		{0, tup(num(0), num(math.MaxInt64), num(math.MaxInt64)), tup(num(1), num(1), num(1))},
		{0, tup(num(math.MaxInt64), num(math.MaxInt64), num(0)), tup(num(1), num(1), num(1))},
		{0, tup(num(2)), tup()},
		{0, tup(str("2")), tup(num(1))},
		{0, "]", tup()},
		{0, "(" + strings.Repeat(num(1), 65) + "t", "(" + strings.Repeat(num(1), 65) + "t"},
	} {
		refused(t, checkpoint(state(tensorOf(c.offset, c.shape, c.stride))), "_rebuild_tensor_v2:")
	}
}

// An expanded tensor may have more elements than its storage, but only up to a limit.
func TestExpanded(t *testing.T) {
	c := accepted(t, checkpoint(state(tensorOf(0, tup(num(5)), tup(num(0))))))
	require.Equal(t, 5, c.Tensors()[0].Numel())
	pickle := "\x80\x02}(" + str("encoder.pos_embed") + tensorOf(0, tup(num(1<<40)), tup(num(0))) +
		"u."
	c = accepted(t, checkpoint(pickle))
	_, err := c.listStreams(t.Context())
	require.ErrorContains(t, err, "the tensors have more than 8 times the file's")
}

func TestNothingIsCalled(t *testing.T) {
	witness := filepath.Join(t.TempDir(), "called")
	arg := tup(str("touch " + witness))
	for _, pickle := range []string{
		name("posix", "system") + arg + "R",
		name("os", "system") + arg + "R",
		name("nt", "system") + arg + "R",
		name("subprocess", "Popen") + arg + "R",
		name("builtins", "eval") + arg + "R",
		name("__builtin__", "exec") + arg + "R",
		name("builtins", "getattr") + tup(name("builtins", "__import__")+tup(str("os"))+"R",
			str("system")) + "R",
		str("posix") + str("system") + "\x93" + arg + "R",
		name("posix", "system") + arg + "\x81",
		name("collections", "OrderedDict") + arg + "R" + arg +
			"R", // a call of what a call returned
		name("os.path", "join") + arg + "R",
		name("types", "FunctionType") + arg + "R",
		name("types", "CodeType") + arg + "R",
		name("builtins", "compile") + arg + "R",
		name("builtins", "open") + arg + "R",
		name("operator", "call") + arg + "R",
		name("builtins", "getattr") + tup(name("os", "path")+str("join")) + "R" + arg + "R",
		"(i__main__\nx\n",
		"(" + name("__main__", "x") + "o",
		"\x82\x01",
		"Pid\n",
	} {
		_, err := readCheckpoint(bytes.NewReader(checkpoint(state(pickle))),
			int64(len(checkpoint(state(pickle)))))
		require.Error(t, err, "%q", pickle)
		require.Regexp(t, "allowed|want", err.Error())
	}
	// Other names are kept as data.
	for _, pickle := range []string{
		name("torch.hub", "load") + arg + "R", name("functools", "reduce") + arg + "R",
		name("some.package", "anything") + arg + "R", name("builtins", "getattr"),
	} {
		accepted(t, checkpoint("\x80\x02}("+str("x")+pickle+str("w")+goodTensor+"u."))
	}
	refused(t, checkpoint(state(name("torch._utils", "_rebuild_qtensor")+arg+"R")),
		`tensor "w" is a torch._utils._rebuild_qtensor`)
	// A partial is kept as data, like a class of any package.
	accepted(t, checkpoint("\x80\x02}("+str("f")+name("functools",
		"partial")+arg+"R"+str("c")+name("some.package", "Class")+")\x81"+str("w")+goodTensor+"u."))
	_, err := os.Lstat(witness)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestItemsOnATensor(t *testing.T) {
	refused(t, checkpoint(state(goodTensor+str("k")+str("v")+"s")), "items set on a tensor")
	refused(t, checkpoint(state(goodTensor+"("+str("v")+"e")), "elements appended to a tensor")
	refused(t, checkpoint(state(goodTensor+"}b")), "state for a tensor")
	refused(t, checkpoint(state("]"+str("k")+str("v")+"s")), "items set on a list")
	refused(t, checkpoint(state("}("+str("k")+"u")), "want pairs")
}

func TestStackUnderflow(t *testing.T) {
	for _, op := range []string{"0", "1", "2", "a", "s", "u", "e", "t", "l", "d", "\x85", "\x86",
		"\x87", "R", "b", "\x81", "\x92", "\x93", "Q",
		"q\x00", "\x94", ".", "\x90", "\x91", "(.", "(a", "(R", "(\x85", "NR", "(t0."} {
		_, _, err := unpickle([]byte("\x80\x02"+op), (&archive{}).findStorage)
		require.Error(t, err, "%q", op)
	}
}

func TestDanglingMemo(t *testing.T) {
	refused(t, checkpoint(state("h\x07")), "memo 7 was never written")
	refused(t, checkpoint(state("j\xff\xff\xff\xff")), "memo 4294967295 was never written")
}

func TestLengths(t *testing.T) {
	long := string(binary.LittleEndian.AppendUint64(nil, 1<<62))
	refused(t, checkpoint("\x80\x04\x95"+long), "a frame of 4611686018427387904 bytes")
	for _, op := range []string{"\x8d", "\x8e", "\x96"} {
		refused(t, checkpoint("\x80\x05"+op+long), "4611686018427387904 bytes are wanted")
	}
	refused(t, checkpoint("\x80\x02X\xff\xff\xff\xff"), "4294967295 bytes are wanted")
	refused(t, checkpoint("\x80\x02\x8b\xff\xff\xff\x7f"), "bytes are wanted")
	c := accepted(t, checkpoint("\x80\x02}("+str("w")+goodTensor+str("big")+"\x8b\x01\x04\x00\x00"+
		strings.Repeat("x", 1025)+"u."))
	require.IsType(t, &Object{}, c.Value("big"))
	refused(t, checkpoint("\x80\x06N."), "protocol 6, want 2 to 5")
}

// A tensor's name must be text; other strings may be anything.
func TestStringsThatAreNotUTF8(t *testing.T) {
	accepted(t, checkpoint("\x80\x02}("+str("w")+goodTensor+str("path")+str("\xed\xb3\xa9")+"u."))
	refused(t, checkpoint("\x80\x02}"+str("\xed\xb3\xa9")+goodTensor+"s."),
		`a tensor's name is "\xed\xb3\xa9", want UTF-8`)
}

func TestSelfContaining(t *testing.T) {
	refused(t, checkpoint(state("]q\x00h\x00a")), "is nested too often")
	refused(t, checkpoint(state("}q\x00"+str("k")+"h\x00s")), "is nested too often")
	refused(t, checkpoint(state("]q\x00h\x00\x85a")), "is nested too often")
	refused(t, checkpoint(state(strings.Repeat("]", MaxDepth+1)+strings.Repeat("a", MaxDepth))),
		"is nested too often or deeper than 256")

	// Thirty shared dictionaries describe a billion names.
	bomb := "\x80\x02}q\x00" + str("t") + goodTensor + "s"
	for i := byte(1); i <= 30; i++ {
		bomb += "}(" + str("a") + "h" + string([]byte{i - 1}) + str("b") + "h" +
			string([]byte{i - 1}) + "uq" + string([]byte{i})
	}
	refused(t, checkpoint(bomb+"."), "is nested too often")

	// The same list twice is not a cycle.
	accepted(t, checkpoint("\x80\x02}("+str("w")+goodTensor+str("l")+"]q\x00h\x00\x86u."))
}

func FuzzZip(f *testing.F) {
	f.Add(checkpoint(state(goodTensor)))
	for _, name := range []string{"views2.pth", "views4.pth", "nested.pth", "legacy.pth"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) { drain(t, data) })
}

func FuzzPickle(f *testing.F) {
	f.Add([]byte(state(goodTensor)))
	f.Add([]byte("\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00]\x94h\x00a."))
	for _, name := range []string{"views2.pth", "views4.pth", "lightning.ckpt", "mage.pth"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		a, err := openArchive(bytes.NewReader(b), int64(len(b)))
		require.NoError(f, err)
		p, err := a.records["data.pkl"].read(MaxPickle)
		require.NoError(f, err)
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, pickle []byte) { drain(t, checkpoint(string(pickle))) })
}

// drain reads all tensors of a checkpoint, if it is one: an accepted tensor has as many bytes as
// its shape says.
func drain(t *testing.T, data []byte) {
	c, err := readCheckpoint(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return
	}
	_ = c.Args()
	_, _ = c.deriveConfig(Options{})
	for _, x := range c.Tensors() {
		r, err := x.Open()
		if err != nil {
			continue
		}
		n, err := io.Copy(io.Discard, r)
		require.NoError(t, err)
		require.Equal(t, int64(x.Numel()*elementSize(x.storage.dtype)), n)
	}
}
