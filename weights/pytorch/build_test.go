package pytorch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// file is a record of a zip under construction. With zero overrides it is well-formed.
type file struct {
	name string
	data []byte

	local         string // name in the local header
	flags, method uint16
	crc           uint32 // added to the correct CRC in both headers
	declared      uint32 // size in both headers
	localSize     uint32 // size in the local header
	at            int    // 1 + offset of another record's header
}

// zipOf writes a zip as torch.save does, with sizes in the local headers.
func zipOf(files ...file) []byte {
	var b, directory []byte
	u16 := binary.LittleEndian.AppendUint16
	u32 := binary.LittleEndian.AppendUint32
	for _, f := range files {
		size := uint32(len(f.data))
		if f.declared != 0 {
			size = f.declared
		}
		crc := crc32.ChecksumIEEE(f.data) + f.crc
		header := len(b)
		b = append(b, "PK\x03\x04"...)
		for _, v := range []uint16{20, f.flags, f.method, 0, 0} {
			b = u16(b, v)
		}
		local, localSize := cmp.Or(f.local, f.name), cmp.Or(f.localSize, size)
		b = u32(u32(u32(b, crc), localSize), localSize)
		b = append(u16(u16(b, uint16(len(local))), 0), local...)
		b = append(b, f.data...)
		if f.at > 0 {
			header = f.at - 1
		}
		directory = append(directory, "PK\x01\x02"...)
		for _, v := range []uint16{20, 20, f.flags, f.method, 0, 0} {
			directory = u16(directory, v)
		}
		directory = u32(u32(u32(directory, crc), size), size)
		for _, v := range []uint16{uint16(len(f.name)), 0, 0, 0, 0} {
			directory = u16(directory, v)
		}
		directory = append(u32(u32(directory, 0), uint32(header)), f.name...)
	}
	at := len(b)
	b = append(b, directory...)
	b = append(b, "PK\x05\x06"...)
	for _, v := range []uint16{0, 0, uint16(len(files)), uint16(len(files))} {
		b = u16(b, v)
	}
	return u16(u32(u32(b, uint32(len(directory))), uint32(at)), 0)
}

// checkpoint returns a zip with this pickle and one record, data/0, of 16 bytes.
func checkpoint(pickle string) []byte {
	return zipOf(file{name: "a/data.pkl", data: []byte(pickle)},
		file{name: "a/data/0", data: make([]byte, 16)})
}

// Pieces of pickles: str, num and tup push a string, an int64 and a tuple.
func str(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}
func num(v int64) string {
	return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(v)))
}
func tup(items ...string) string {
	s := "("
	for _, i := range items {
		s += i
	}
	return s + "t"
}
func name(module, name string) string { return "c" + module + "\n" + name + "\n" }

// storageOf pushes a storage of numel elements of record data/0.
func storageOf(class string, numel int64) string {
	return tup(str("storage"), name("torch", class), str("0"), str("cpu"), num(numel)) + "Q"
}

// tensorOf pushes a float32 tensor over the 4 elements of data/0.
func tensorOf(offset int64, shape, stride string) string {
	return name("torch._utils", "_rebuild_tensor_v2") +
		tup(storageOf("FloatStorage", 4), num(offset), shape, stride, "\x89", "}") + "R"
}

var goodTensor = tensorOf(0, tup(num(2), num(2)), tup(num(2), num(1)))

// state returns a whole pickle: a dictionary with one entry w.
func state(value string) string { return "\x80\x02}" + str("w") + value + "s." }

// refused reads a checkpoint and expects an error.
func refused(t *testing.T, data []byte, want string) {
	t.Helper()
	_, err := readCheckpoint(bytes.NewReader(data), int64(len(data)))
	require.ErrorContains(t, err, want)
	require.NotContains(t, err.Error(), "\n")
}

// accepted reads a checkpoint and expects no error.
func accepted(t *testing.T, data []byte) *Checkpoint {
	t.Helper()
	c, err := readCheckpoint(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return c
}

func written(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.pth")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}
