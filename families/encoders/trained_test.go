package encoders_test

import (
	"archive/zip"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights/pytorch"
)

// trained are the models with trained weights in packages, and where they are in them.
var trained = map[string]struct{ wheel, path string }{
	"antiberty": {"antiberty-0.1.3-*.whl", "antiberty/trained_models/AntiBERTy_md_smooth"},
	"sapiens-h": {"sapiens-1.0.5-*.whl", "sapiens/models/v1/checkpoint_vh.pt"},
	"sapiens-l": {"sapiens-1.0.5-*.whl", "sapiens/models/v1/checkpoint_vl.pt"},
	"rxnmapper": {"rxnmapper-0.4.3-*.whl",
		"rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"},
}

// fact is what testkit/parity/trained_encoders.py wrote of one model.
type fact struct {
	Tokens, Rows []int32
	Largest      float64 // absolute value of all logits
	Logits       [][]float32
}

// TestTrainedWeights converts the packages' checkpoints, of three formats, and compares logits with
// those that PyTorch computed. UNMASK_TRAINED is a folder with the packages, from
//
//	pip download --no-deps antiberty==0.1.3 sapiens==1.0.5 rxnmapper==0.4.3
func TestTrainedWeights(t *testing.T) {
	folder := os.Getenv("UNMASK_TRAINED")
	if folder == "" {
		t.Skip("UNMASK_TRAINED is not set: it names a folder with the packages of trained models")
	}
	data, err := os.ReadFile("testdata/trained.json")
	require.NoError(t, err)
	var facts map[string]fact
	require.NoError(t, json.Unmarshal(data, &facts))
	for name, at := range trained {
		t.Run(name, func(t *testing.T) {
			wheels, err := filepath.Glob(filepath.Join(folder, at.wheel))
			require.NoError(t, err)
			if len(wheels) == 0 {
				t.Skipf("%s has no %s", folder, at.wheel)
			}
			dir := t.TempDir()
			unpack(t, wheels[0], dir)
			require.NoError(t, pytorch.Convert(context.Background(), filepath.Join(dir, at.path),
				filepath.Join(dir, "out"), pytorch.Options{}))
			compareTrained(t, filepath.Join(dir, "out"), facts[name])
		})
	}
}

func compareTrained(t *testing.T, dir string, f fact) {
	src, err := model.Open(dir)
	require.NoError(t, err)
	defer src.Set.Close()
	m, err := model.Load(src, model.Options{Backend: cpu.New(cpu.Options{}), Precision: backend.F32})
	require.NoError(t, err)
	got, err := m.Forward(context.Background(), parity.Batch(f.Tokens, []int{1, len(f.Tokens)}))
	require.NoError(t, err)
	columns := len(f.Logits[0])
	logits := parity.Logits(t, got, f.Rows, columns)
	for i, want := range f.Logits {
		for c := range want {
			require.InDelta(t, want[c], logits[i*columns+c], 1e-5*f.Largest, "row %d, column %d",
				f.Rows[i], c)
		}
	}
	// The tokenizer's ids are those of the reference, and text comes back.
	inner := f.Tokens[1 : len(f.Tokens)-1]
	text := m.Tokenizer.Decode(inner)
	ids, err := m.Tokenizer.EncodeSpecial(text)
	require.NoError(t, err)
	require.Equal(t, inner, ids)
}

func unpack(t *testing.T, wheel, dir string) {
	r, err := zip.OpenReader(wheel)
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, os.CopyFS(dir, r))
}
