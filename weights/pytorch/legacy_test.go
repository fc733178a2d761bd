package pytorch

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/weights"
)

// legacyOf returns a file of the format before zips: the pickle of an object, the keys of storages,
// and the bytes after them.
func legacyOf(object, keys, data string) []byte {
	const magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
	return []byte(magic + "\x80\x02M\xe9\x03." + "\x80\x02}" + str("little_endian") + "\x88s." +
		object + "\x80\x02]" + keys + "." + data)
}

// legacyTensor is a tensor of 4 floats in the storage with key "7".
func legacyTensor(view string) string {
	return name("torch._utils", "_rebuild_tensor_v2") + tup(tup(str("storage"),
		name("torch", "FloatStorage"), str("7"), str("cpu"), num(4), view)+"Q", num(0),
		tup(num(2), num(2)), tup(num(2), num(1)), "\x89", "}") + "R"
}

// elements are the bytes of a storage of n floats: its length and zeros.
func elements(n int) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(n))) + string(make([]byte, 4*n))
}

func TestBadLegacyFiles(t *testing.T) {
	good, key := state(legacyTensor("N")), str("7")+"a"
	c := accepted(t, legacyOf(good, key, elements(4)))
	require.Equal(t, []int{2, 2}, c.Tensors()[0].Shape)

	bytes4 := elements(4)
	for _, c := range []struct {
		want string
		data []byte
	}{
		{"a storage is a view of another", legacyOf(state(legacyTensor(num(1))), key, bytes4)},
		{`storage "7" at byte`, legacyOf(good, key, elements(3))},
		{"the file is cut off at", legacyOf(good, key, bytes4[:20])},
		{"there are 0 storages, the object has 1", legacyOf(good, "", "")},
		{`storage "8" is not one of the object's`, legacyOf(good, str("8")+"a", bytes4)},
		{"the storages end at byte", legacyOf(good, key, bytes4+"x")},
		{"the storages are a int64, want a list", legacyOf(good, "0"+num(3), bytes4)},
		{"it runs code", legacyOf("\x80\x02"+name("posix", "system")+".", key, "")},
		{"pickle of the object, from byte", legacyOf("\x80\x02R.", key, bytes4)},
		{"a persistent id is there, want none outside", legacyOf(good, tup(str("storage"))+"Q", "")},
		{"a persistent id is a string, want a storage's", legacyOf(state(str("x")+"Q"), key, "")},
	} {
		refused(t, c.data, c.want)
	}
	whole := legacyOf(good, key, elements(4))
	for n := range whole {
		_, err := readCheckpoint(bytes.NewReader(whole[:n]), int64(n))
		require.Error(t, err, n)
	}
	big := bytes.Replace(whole, []byte(str("little_endian")+"\x88"),
		[]byte(str("little_endian")+"\x89"), 1)
	refused(t, big, "byte order is big, want little")
	refused(t, bytes.Replace(whole, []byte("M\xe9\x03"), []byte("M\xe8\x03"), 1),
		"protocol version 1000, want 1001")
}

// A folder of transformers with two shards is converted with its vocabulary, which may be one
// folder up.
func TestConvertFolder(t *testing.T) {
	dir := t.TempDir()
	model, out := filepath.Join(dir, "model"), filepath.Join(dir, "out")
	require.NoError(t, os.Mkdir(model, 0o777))
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(model, name), []byte(text), 0o666))
	}
	convert := func() error { return Convert(context.Background(), model, out, Options{}) }
	require.ErrorContains(t, convert(), "neither pytorch_model.bin nor pytorch_model.bin.index.json")
	put("pytorch_model.bin.index.json", `{"weight_map": {"w": "../a.bin"}}`)
	require.ErrorContains(t, convert(), `file is "../a.bin", want one in the folder`)
	put("pytorch_model.bin.index.json", `{"weight_map": {"w": "a.bin", "v": "b.bin"}}`)
	require.ErrorContains(t, convert(), "config.json")
	put("config.json", `{"hidden_size": 2}`)
	require.ErrorContains(t, convert(), "a.bin")
	put("a.bin", string(legacyOf(state(legacyTensor("N")), str("7")+"a", elements(4))))
	put("b.bin", string(checkpoint(state(goodTensor))))
	require.ErrorContains(t, convert(), `b.bin: tensor "w" is in a.bin too`)
	put("b.bin", string(checkpoint("\x80\x02}"+str("v")+goodTensor+"s.")))
	put("../vocab.txt", "A\nB\n")
	// what sentence-transformers does after the network, in folders that modules.json names
	const modules = `[{"path": ""}, {"path": "01_pooling"}, {"path": "2_Dense_1024"},
		{"path": "layers/last"}, {"path": "3_Normalize"}]`
	for _, part := range []string{"01_pooling", "2_Dense_1024", "layers/last"} {
		require.NoError(t, os.MkdirAll(filepath.Join(model, part), 0o777))
		put(part+"/config.json", part)
	}
	put("modules.json", modules)
	put("sentence_xlnet_config.json", "{}")
	put("2_Dense_1024/config.json", `{"bias": false}`)
	put("2_Dense_1024/pytorch_model.bin", string(checkpoint(state(goodTensor))))
	put("layers/last/model.safetensors", "weights")
	require.NoError(t, convert())
	dense, err := weights.Open(filepath.Join(out, "2_Dense_1024"))
	require.NoError(t, err)
	require.Equal(t, []string{"w"}, dense.Names())
	require.NoError(t, dense.Close())
	for name, want := range map[string]string{"config.json": `{"hidden_size": 2}`,
		"vocab.txt": "A\nB\n", "modules.json": modules, "sentence_xlnet_config.json": "{}",
		"01_pooling/config.json": "01_pooling", "2_Dense_1024/config.json": `{"bias": false}`,
		"layers/last/config.json": "layers/last", "layers/last/model.safetensors": "weights"} {
		got, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	require.ErrorContains(t, convert(), "is there already")
}
