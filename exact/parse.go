package exact

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setting is a parameter of Parse with its default and its range.
type setting struct {
	key      string
	fallback float64
	min, max float64
	isWhole  bool
}

// kinds are the models that Parse knows, each with its parameters. build takes their values in the
// same order.
var kinds = []struct {
	name     string
	settings []setting
	build    func(v []float64) *Model
}{
	{
		"product",
		[]setting{lengthSetting(32), tokensSetting(8), sharpSetting, seedSetting},
		func(v []float64) *Model { return Product(int(v[0]), int(v[1]), v[2], uint64(v[3])) },
	},
	{
		"markov",
		[]setting{lengthSetting(32), tokensSetting(8), staySetting, sharpSetting, seedSetting},
		func(v []float64) *Model { return Markov(int(v[0]), int(v[1]), v[2], v[3], uint64(v[4])) },
	},
	{
		"letters",
		[]setting{lengthSetting(128)},
		func(v []float64) *Model { return Letters(int(v[0])) },
	},
	{
		"hmm",
		[]setting{
			lengthSetting(32),
			tokensSetting(8),
			{key: "hidden", fallback: 4, min: 1, max: 64, isWhole: true},
			staySetting,
			sharpSetting,
			seedSetting,
		},
		func(v []float64) *Model {
			return HMM(int(v[0]), int(v[1]), int(v[2]), v[3], v[4], uint64(v[5]))
		},
	},
	{
		"ising",
		[]setting{
			{key: "height", fallback: 4, min: 1, max: maxHeight, isWhole: true},
			{key: "width", fallback: 8, min: 1, max: MaxLength, isWhole: true},
			{key: "coupling", fallback: 0.4, min: -5, max: 5},
			{key: "field", fallback: 0, min: -5, max: 5},
		},
		func(v []float64) *Model { return Ising(int(v[0]), int(v[1]), v[2], v[3]) },
	},
}

// Parameters of several kinds.
var (
	staySetting  = setting{key: "stay", fallback: 0.6, min: 0, max: 0.99}
	sharpSetting = setting{key: "sharp", fallback: 2, min: 0, max: 8}
	seedSetting  = setting{key: "seed", fallback: 1, min: 0, max: 1 << 53, isWhole: true}
)

// lengthSetting is the setting of a chain's length.
func lengthSetting(fallback float64) setting {
	return setting{key: "length", fallback: fallback, min: 1, max: MaxLength, isWhole: true}
}

// tokensSetting is the setting of the number of tokens.
func tokensSetting(fallback float64) setting {
	return setting{key: "tokens", fallback: fallback, min: 1, max: MaxTokens, isWhole: true}
}

// Parse builds a model from a text such as "markov:length=16,tokens=4". Kinds are product, markov,
// letters, hmm and ising; omitted parameters have defaults.
func Parse(text string) (*Model, error) {
	name, parameters, _ := strings.Cut(text, ":")
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
		if k.name != name {
			continue
		}
		values, err := parseSettings(k.settings, parameters)
		if err != nil {
			return nil, fmt.Errorf("oracle: %q: %w", text, err)
		}
		m := k.build(values)
		if m.Length() > MaxLength {
			return nil, fmt.Errorf("oracle: %q: %d positions, want at most %d", text, m.Length(),
				MaxLength)
		}
		return m, nil
	}
	return nil, fmt.Errorf("oracle: unknown model %q, want one of %s", name, strings.Join(names, ", "))
}

// parseSettings reads key=value pairs, each key at most once, and returns a value for each setting.
func parseSettings(settings []setting, text string) ([]float64, error) {
	values := make([]float64, len(settings))
	for i, s := range settings {
		values[i] = s.fallback
	}
	if text == "" {
		return values, nil
	}

	seen := make([]bool, len(settings))
	for pair := range strings.SplitSeq(text, ",") {
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
		x, err := settings[i].parse(value)
		if err != nil {
			return nil, err
		}
		values[i] = x
	}
	return values, nil
}

// parse reads a value.
func (s setting) parse(value string) (float64, error) {
	x, err := strconv.ParseFloat(value, 64)
	inRange := x >= s.min && x <= s.max // not if x is NaN
	if err == nil && inRange && (!s.isWhole || x == float64(int64(x))) {
		return x, nil
	}
	kind := "a number"
	if s.isWhole {
		kind = "a whole number"
	}
	return 0, fmt.Errorf("%s=%s, want %s from %v to %v", s.key, value, kind, s.min, s.max)
}
