package exact

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setting is a parameter of Parse with its default and range.
type setting struct {
	key           string
	value, lo, hi float64
	whole         bool
}

// kinds are the models that Parse knows, each with its parameters.
var kinds = []struct {
	name     string
	settings []setting
	build    func(v []float64) *Model
}{
	{"product", []setting{length(32), tokens(8), sharp, seed},
		func(v []float64) *Model { return Product(int(v[0]), int(v[1]), v[2], uint64(v[3])) }},
	{"markov", []setting{length(32), tokens(8), stay, sharp, seed},
		func(v []float64) *Model { return Markov(int(v[0]), int(v[1]), v[2], v[3], uint64(v[4])) }},
	{"letters", []setting{length(128)},
		func(v []float64) *Model { return Letters(int(v[0])) }},
	{"hmm", []setting{length(32), tokens(8), {key: "hidden", value: 4, lo: 1, hi: 64, whole: true},
		stay, sharp, seed},
		func(v []float64) *Model {
			return HMM(int(v[0]), int(v[1]), int(v[2]), v[3], v[4], uint64(v[5]))
		}},
	{"ising", []setting{{key: "height", value: 4, lo: 1, hi: maxHeight, whole: true},
		{key: "width", value: 8, lo: 1, hi: MaxLength, whole: true},
		{key: "coupling", value: 0.4, lo: -5, hi: 5}, {key: "field", value: 0, lo: -5, hi: 5}},
		func(v []float64) *Model { return Ising(int(v[0]), int(v[1]), v[2], v[3]) }},
}

var (
	stay  = setting{key: "stay", value: 0.6, lo: 0, hi: 0.99}
	sharp = setting{key: "sharp", value: 2, lo: 0, hi: 8}
	seed  = setting{key: "seed", value: 1, lo: 0, hi: 1 << 53, whole: true}
)

func length(n float64) setting {
	return setting{key: "length", value: n, lo: 1, hi: MaxLength, whole: true}
}

func tokens(n float64) setting {
	return setting{key: "tokens", value: n, lo: 1, hi: MaxTokens, whole: true}
}

// Parse builds a model from a text such as "markov:length=16,tokens=4". Kinds are product, markov,
// letters, hmm and ising; omitted parameters have defaults.
func Parse(text string) (*Model, error) {
	name, rest, _ := strings.Cut(text, ":")
	var names []string
	for _, k := range kinds {
		if k.name == name {
			values, err := read(k.settings, rest)
			if err == nil {
				m := k.build(values)
				if m.Length() <= MaxLength {
					return m, nil
				}
				err = fmt.Errorf("%d positions, want at most %d", m.Length(), MaxLength)
			}
			return nil, fmt.Errorf("oracle: %q: %w", text, err)
		}
		names = append(names, k.name)
	}
	return nil, fmt.Errorf("oracle: unknown model %q, want one of %s", name, strings.Join(names, ", "))
}

// read parses key=value pairs, each key at most once.
func read(settings []setting, text string) ([]float64, error) {
	values, seen := make([]float64, len(settings)), make([]bool, len(settings))
	for i, s := range settings {
		values[i] = s.value
	}
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" && text == "" {
			break
		}
		key, value, _ := strings.Cut(pair, "=")
		i := slices.IndexFunc(settings, func(s setting) bool { return s.key == key })
		if i < 0 {
			var keys []string
			for _, s := range settings {
				keys = append(keys, s.key)
			}
			return nil, fmt.Errorf("unknown parameter %q, want one of %s", key, strings.Join(keys, ", "))
		}
		if seen[i] {
			return nil, fmt.Errorf("parameter %q twice", key)
		}
		seen[i] = true
		s := settings[i]
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x >= s.lo && x <= s.hi) || s.whole && x != float64(int64(x)) {
			kind := "a number"
			if s.whole {
				kind = "a whole number"
			}
			return nil, fmt.Errorf("%s=%s, want %s from %v to %v", key, value, kind, s.lo, s.hi)
		}
		values[i] = x
	}
	return values, nil
}
