package pytorch

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/testkit/refusal"
	"unmask/weights"
)

// twoSets is a checkpoint of a small network with averaged weights, under construction.
type twoSets struct {
	records []file
	network []parameter

	// values of the two sets, by the name in the state dict
	raw, averaged map[string]float32
}

// parameter is a tensor of the network.
type parameter struct {
	name     string
	shape    []int
	isBuffer bool
}

// tensor pushes a new float32 tensor of a shape, all of whose elements have one value.
func (s *twoSets) tensor(shape []int, value float32) string {
	n := 1
	dims, strides := "(", "("
	for i, d := range shape {
		n *= d
		stride := 1
		for _, inner := range shape[i+1:] {
			stride *= inner
		}
		dims += num(int64(d))
		strides += num(int64(stride))
	}
	var data []byte
	for range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(value))
	}
	key := fmt.Sprint(len(s.records))
	s.records = append(s.records, file{name: "a/data/" + key, data: data})
	storage := tup(str("storage"), name("torch", "FloatStorage"), str(key), str("cpu"),
		num(int64(n))) + "Q"
	return name("torch._utils", "_rebuild_tensor_v2") +
		tup(storage, num(0), dims+"t", strides+"t", "\x89", "}") + "R"
}

// stateDict pushes the items of a state dict: the averaged or the trained values, with renamed
// tensors.
func (s *twoSets) stateDict(isAveraged bool, rename func(string) string) string {
	items := ""
	for i, p := range s.network {
		value := float32(i + 1)
		set := s.raw
		if isAveraged {
			value += 100
			set = s.averaged
		}
		set[p.name] = value
		items += str(rename(p.name)) + s.tensor(p.shape, value)
	}
	return items
}

// list pushes the averaged parameters without names, as MDLM, SDTT and torch_ema do.
func (s *twoSets) list() string {
	items := ""
	for i, p := range s.network {
		if p.isBuffer {
			s.averaged[p.name] = s.raw[p.name]
			continue
		}
		s.averaged[p.name] = float32(i + 101)
		items += s.tensor(p.shape, s.averaged[p.name])
	}
	return "](" + items + "e"
}

// forms are the ways in which programs keep two sets of weights. Each pushes the entries of the
// checkpoint's dictionary.
var forms = map[string]func(s *twoSets) string{
	"MDLM": func(s *twoSets) string {
		return str("state_dict") + "}(" + s.stateDict(false, same) + "u" +
			str("ema") + "}(" + str("decay") + num(1) + str("shadow_params") + s.list() + "u"
	},
	"timm": func(s *twoSets) string {
		return str("state_dict") + "}(" + s.stateDict(false, same) + "u" +
			str("state_dict_ema") + "}(" + s.stateDict(true, wrap("module.")) + "u"
	},
	"DeiT": func(s *twoSets) string {
		return str("model_ema") + "}(" + s.stateDict(true, same) + "u" +
			str("model") + "}(" + s.stateDict(false, same) + "u"
	},
	"DiT, wrapped": func(s *twoSets) string {
		return str("model") + "}(" + s.stateDict(false, wrap("_orig_mod.")) + "u" +
			str("ema") + "}(" + s.stateDict(true, same) + "u"
	},
	"ema_state_dict in a callback": func(s *twoSets) string {
		return str("state_dict") + "}(" + s.stateDict(false, wrap("model.")) + "u" +
			str("callbacks") + "}" + str("EMA") + "}" + str("ema_state_dict") + "}(" +
			s.stateDict(true, same) + "uss"
	},
	"shadow by name": func(s *twoSets) string {
		return str("model_state_dict") + "}(" + s.stateDict(false, same) + "u" +
			str("ema") + "}" + str("shadow") + "}(" + s.stateDict(true, same) + "us"
	},
	"Lightning's weight averaging": func(s *twoSets) string {
		return str("state_dict") + "}(" + s.stateDict(true, same) + "u" +
			str("current_model_state") + "}(" + s.stateDict(false, same) + "u"
	},
	"a module of the network": func(s *twoSets) string {
		return str("state_dict") + "}(" + s.stateDict(false, wrap("model.")) +
			s.stateDict(true, wrap("ema_model.module.")) +
			str("ema_model.n_averaged") + s.tensor(nil, 7) + "u"
	},
	"CompVis": func(s *twoSets) string {
		dotless := func(name string) string { return "model_ema." + strings.ReplaceAll(name, ".", "") }
		return str("state_dict") + "}(" + s.stateDict(false, wrap("model.")) +
			s.stateDict(true, dotless) + "u"
	},
	"no state dict": func(s *twoSets) string {
		return str("net") + "}(" + s.stateDict(false, same) + "u" +
			str("net_ema") + "}(" + s.stateDict(true, same) + "u"
	},
}

func same(name string) string { return name }

func wrap(prefix string) func(string) string {
	return func(name string) string { return prefix + name }
}

// drawNetwork draws the tensors of a network, buffers among them.
func drawNetwork(t *rapid.T) []parameter {
	var network []parameter
	for i := range rapid.IntRange(1, 8).Draw(t, "tensors") {
		shape := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 3).Draw(t, "shape")
		network = append(network, parameter{name: fmt.Sprintf("backbone.b%d.weight", i), shape: shape})
		if rapid.Bool().Draw(t, "buffer") {
			network = append(network, parameter{name: fmt.Sprintf("backbone.b%d.rotary.inv_freq", i),
				shape: shape, isBuffer: true})
		}
	}
	network = append(network, parameter{name: "noise.scale", shape: []int{1}})
	return network
}

// converted converts a checkpoint with a config.json beside it, and returns the values that were
// written by the end of their names, config.json, and what was said.
func converted(t require.TestingT, dir, pickle string, records []file,
	o Options) (values map[string]float32, config map[string]any, said string, err error) {
	whole := append([]file{{name: "a/data.pkl", data: []byte("\x80\x02}(" + pickle + "u.")}},
		records...)
	src, err := os.MkdirTemp(dir, "src")
	require.NoError(t, err)
	checkpointFile := filepath.Join(src, "model.ckpt")
	require.NoError(t, os.WriteFile(checkpointFile, zipOf(whole...), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(src, configFile), []byte(`{"a": 1}`), 0o600))
	o.Logf = func(format string, args ...any) { said += fmt.Sprintf(format, args...) + "\n" }
	out := filepath.Join(src, "out")
	err = Convert(context.Background(), checkpointFile, out, o)
	if err != nil {
		return nil, nil, said, err
	}

	data, err := os.ReadFile(filepath.Join(out, configFile))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &config))
	set, err := weights.Open(out)
	require.NoError(t, err)
	defer set.Close()
	values = map[string]float32{}
	for _, name := range set.Names() {
		x, _ := set.Get(name)
		floats, err := x.Floats()
		require.NoError(t, err)
		values[name] = floats[0]
	}
	return values, config, said, nil
}

// selected reads a checkpoint and returns the values of the set of weights that was asked for, and
// what was said.
func (s *twoSets) selected(t require.TestingT, pickle, asked string) (values map[string]float32,
	said string, err error) {
	whole := append([]file{{name: "a/data.pkl", data: []byte("\x80\x02}(" + pickle + "u.")}},
		s.records...)
	data := zipOf(whole...)
	c, err := readCheckpoint(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	_, err = c.selectWeights(asked, func(format string, args ...any) {
		said += fmt.Sprintf(format, args...) + "\n"
	})
	values = map[string]float32{}
	for _, x := range c.Tensors() {
		r, err := x.Open()
		require.NoError(t, err)
		bytes, err := io.ReadAll(r)
		require.NoError(t, err)
		values[x.Name] = math.Float32frombits(binary.LittleEndian.Uint32(bytes))
	}
	return values, said, err
}

// requireSet requires that the values are those of a set, with a wrapper's name before the names.
func (s *twoSets) requireSet(t require.TestingT, set, values map[string]float32) {
	require.Len(t, values, len(s.network))
	for name, value := range values {
		begin := max(strings.Index(name, "backbone."), strings.Index(name, "noise."))
		require.Equal(t, set[name[begin:]], value, name)
	}
}

// Whatever the form in which a program keeps two sets of weights, the averaged values are taken
// under the network's names, or the trained ones where these are asked for, and it is said which.
func TestTwoSetsOfWeights(t *testing.T) {
	for form, build := range forms {
		t.Run(form, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := &twoSets{network: drawNetwork(t), raw: map[string]float32{},
					averaged: map[string]float32{}}
				pickle := build(s)
				for _, asked := range []string{"", AveragedWeights} {
					values, said, err := s.selected(t, pickle, asked)
					require.NoError(t, err)
					s.requireSet(t, s.averaged, values)
					require.Contains(t, said, "weights ema")
				}
				values, said, err := s.selected(t, pickle, RawWeights)
				require.NoError(t, err)
				s.requireSet(t, s.raw, values)
				require.Contains(t, said, "weights raw")
			})
		})
	}
}

// A conversion writes the set that was asked for, and config.json says which.
func TestConvertTwoSetsOfWeights(t *testing.T) {
	for form, build := range forms {
		for _, used := range WeightSets {
			t.Run(form+" "+used, func(t *testing.T) {
				s := &twoSets{raw: map[string]float32{}, averaged: map[string]float32{},
					network: []parameter{{name: "backbone.w", shape: []int{2}},
						{name: "backbone.b.inv_freq", shape: []int{1}, isBuffer: true}}}
				pickle := build(s)
				values, config, _, err := converted(t, t.TempDir(), pickle, s.records,
					Options{Weights: used})
				require.NoError(t, err)
				s.requireSet(t, map[string]map[string]float32{AveragedWeights: s.averaged,
					RawWeights: s.raw}[used], values)
				require.Equal(t, map[string]any{"a": 1.0, "unmask_weights": used}, config)
			})
		}
	}
}

// A list of averages that is not that of the network's parameters is of another network: it is
// refused, and the trained weights are taken where they are asked for.
func TestForeignAverages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &twoSets{network: drawNetwork(t), raw: map[string]float32{},
			averaged: map[string]float32{}}
		pickle := str("state_dict") + "}(" + s.stateDict(false, same) + "u"
		if rapid.Bool().Draw(t, "longer") {
			s.network = append(s.network, parameter{name: "backbone.more", shape: []int{2}})
		} else {
			s.network[0].shape = append(s.network[0].shape, 4)
		}
		pickle += str("ema") + "}" + str("shadow_params") + s.list() + "s"
		_, _, err := s.selected(t, pickle, "")
		require.ErrorContains(t, err, "averaged weights in ema.shadow_params: ")
		require.ErrorContains(t, err, "weights raw takes the others")
		values, _, err := s.selected(t, pickle, RawWeights)
		require.NoError(t, err)
		require.Equal(t, s.raw, values)
	})
}

// In a file with one set of weights there is nothing to choose: the averaged ones are refused, and
// asking for the others changes nothing and says so. A file with the averaged ones alone has no raw
// ones.
func TestOneSetOfWeights(t *testing.T) {
	s := &twoSets{network: []parameter{{name: "backbone.w", shape: []int{2}}},
		raw: map[string]float32{}, averaged: map[string]float32{}}
	pickle := str("state_dict") + "}(" + s.stateDict(false, same) + "u" +
		// neither a loss nor its settings are weights
		str("loss_ema") + s.tensor(nil, 1) + str("current_model_state") + "N" +
		str("ema") + "}" + str("decay") + num(1) + "s"
	_, _, _, err := converted(t, t.TempDir(), pickle, s.records, Options{Weights: AveragedWeights})
	refusal.Require(t, err, "weights", "ema")
	for _, asked := range []string{"", RawWeights} {
		values, config, said, err := converted(t, t.TempDir(), pickle, s.records,
			Options{Weights: asked})
		require.NoError(t, err)
		require.Equal(t, s.raw, values)
		require.Equal(t, map[string]any{"a": 1.0}, config)
		require.Equal(t, asked == RawWeights, strings.Contains(said, "changes nothing"))
	}
	_, _, _, err = converted(t, t.TempDir(), pickle, s.records, Options{Weights: "both"})
	require.ErrorContains(t, err, `"both"`)

	alone := str("ema") + "}(" + s.stateDict(true, same) + "u"
	values, config, _, err := converted(t, t.TempDir(), alone, s.records, Options{})
	require.NoError(t, err)
	require.Equal(t, s.averaged, values)
	require.Equal(t, AveragedWeights, config["unmask_weights"])
	_, _, _, err = converted(t, t.TempDir(), alone, s.records, Options{Weights: RawWeights})
	refusal.Require(t, err, "weights", "raw")
}

// A parameter under two names has one average, which both names get.
func TestAverageOfTiedParameters(t *testing.T) {
	s := &twoSets{}
	tied := s.tensor([]int{2}, 1)
	pickle := str("state_dict") + "}(" + str("embed") + tied + str("head") + tied + str("bias") +
		s.tensor([]int{3}, 2) + "u" +
		str("ema") + "}" + str("shadow_params") + "](" + s.tensor([]int{2}, 5) + s.tensor([]int{3}, 6) +
		"es"
	values, _, _, err := converted(t, t.TempDir(), pickle, s.records, Options{})
	require.NoError(t, err)
	require.Equal(t, map[string]float32{"embed": 5, "head": 5, "bias": 6}, values)
}

func FuzzAverage(f *testing.F) {
	for _, build := range forms {
		s := &twoSets{network: []parameter{{name: "backbone.w", shape: []int{2}}},
			raw: map[string]float32{}, averaged: map[string]float32{}}
		f.Add([]byte("\x80\x02}(" + build(s) + "u."))
	}
	f.Fuzz(func(t *testing.T, pickle []byte) {
		data := checkpoint(string(pickle))
		c, err := readCheckpoint(bytes.NewReader(data), int64(len(data)))
		if err == nil {
			_, _ = c.selectWeights("", func(string, ...any) {})
		}
	})
}
