package encoders_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights"
	"unmask/weights/pytorch"
)

// AntiBERTy's package (antiberty 0.1.3) has a folder of config.json and pytorch_model.bin, and
// vocab.txt above it. The checkpoint has two buffers of BERT's and three further heads that make no
// logits. Small weights in this form, converted as docs/encoders.md says, give the logits that the
// same weights give as safetensors, which are transformers'.
func TestAntiBERTy(t *testing.T) {
	p := parity.Open(t, "bert-tiny")
	dir := filepath.Join(t.TempDir(), "trained_models", "AntiBERTy_md_smooth")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for from, to := range map[string]string{"config.json": "config.json",
		"vocab.txt": "../vocab.txt"} {
		data, err := os.ReadFile(p.Dir(from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), data, 0o600))
	}
	set, err := weights.Open(p.Dir("model.safetensors"))
	require.NoError(t, err)
	defer set.Close()
	file := newTorchFile(t)
	for _, name := range set.Names() {
		x, _ := set.Get(name)
		require.Equal(t, weights.F32, x.DType, name)
		file.add(name, "FloatStorage", 4, x.Shape, x.Data)
	}
	const width = 32
	file.add("bert.embeddings.position_ids", "LongStorage", 8, []int{1, 64}, make([]byte, 8*64))
	file.zeros("bert.pooler.dense.weight", width, width)
	file.zeros("bert.pooler.dense.bias", width)
	if _, ok := set.Get("cls.predictions.decoder.weight"); !ok {
		words, _ := set.Get("bert.embeddings.word_embeddings.weight")
		file.add("cls.predictions.decoder.weight", "FloatStorage", 4, words.Shape, words.Data)
	}
	if bias, ok := set.Get("cls.predictions.bias"); ok {
		file.add("cls.predictions.decoder.bias", "FloatStorage", 4, bias.Shape, bias.Data)
	}
	for name, classes := range map[string]int{"species": 6, "chain": 2, "graft": 2} {
		file.zeros("cls."+name+".weight", classes, width)
		file.zeros("cls."+name+".bias", classes)
	}
	file.write(filepath.Join(dir, "pytorch_model.bin"))

	antibody := filepath.Join(t.TempDir(), "antibody")
	require.NoError(t, pytorch.Convert(context.Background(), dir, antibody, pytorch.Options{}))
	src, err := model.Open(antibody)
	require.NoError(t, err)
	defer src.Set.Close()
	m, err := model.Load(src, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	tokens, shape := p.Ints("tokens")
	want, wantShape := p.Floats("logits")
	got, err := m.Forward(context.Background(), parity.Batch(tokens, shape))
	require.NoError(t, err)
	parity.RequireClose(t, want, parity.Logits(t, got, parity.Count(len(tokens)), wantShape[2]), 1e-5)
	ids, err := m.Tokenizer.Encode("EVQLVE")
	require.NoError(t, err)
	require.Equal(t, "EVQLVE", m.Tokenizer.Decode(ids))
}

// torchFile is a file as torch.save writes it: a zip of a pickled dictionary and the tensors'
// bytes.
type torchFile struct {
	t      *testing.T
	zip    *zip.Writer
	bytes  bytes.Buffer
	pickle bytes.Buffer // key, value, key, value ...
	n      int          // tensors
}

func newTorchFile(t *testing.T) *torchFile {
	f := &torchFile{t: t}
	f.zip = zip.NewWriter(&f.bytes)
	return f
}

func (f *torchFile) put(name string, data []byte) {
	w, err := f.zip.CreateHeader(&zip.FileHeader{Name: "archive/" + name})
	require.NoError(f.t, err)
	_, err = w.Write(data)
	require.NoError(f.t, err)
}

func (f *torchFile) text(s string) {
	f.pickle.WriteByte('X')
	f.pickle.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
	f.pickle.WriteString(s)
}

func (f *torchFile) number(n int) {
	f.pickle.WriteByte('J')
	f.pickle.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

// numbers writes a tuple.
func (f *torchFile) numbers(list []int) {
	f.pickle.WriteByte('(')
	for _, n := range list {
		f.number(n)
	}
	f.pickle.WriteByte('t')
}

func (f *torchFile) zeros(name string, shape ...int) {
	size := 4
	for _, n := range shape {
		size *= n
	}
	f.add(name, "FloatStorage", 4, shape, make([]byte, size))
}

// add adds a tensor whose elements have some bytes each.
func (f *torchFile) add(name, class string, bytes int, shape []int, data []byte) {
	stride, next := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		stride[i], next = next, next*shape[i]
	}
	require.Len(f.t, data, bytes*next, name)
	f.text(name)
	f.pickle.WriteString("ctorch._utils\n_rebuild_tensor_v2\n((")
	f.text("storage")
	f.pickle.WriteString("ctorch\n" + class + "\n")
	f.text(fmt.Sprint(f.n))
	f.text("cpu")
	f.number(next)
	f.pickle.WriteString("tQ")
	f.number(0)
	f.numbers(shape)
	f.numbers(stride)
	f.pickle.WriteString("\x89ccollections\nOrderedDict\n)RtR")
	f.put(fmt.Sprintf("data/%d", f.n), data)
	f.n++
}

func (f *torchFile) write(name string) {
	f.put("data.pkl", []byte("\x80\x02ccollections\nOrderedDict\n)R("+f.pickle.String()+"u."))
	f.put("version", []byte("3\n"))
	require.NoError(f.t, f.zip.Close())
	require.NoError(f.t, os.WriteFile(name, f.bytes.Bytes(), 0o600))
}
