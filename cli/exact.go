package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/backend/plain"
	"unmask/model"
	"unmask/theory/oracle"
)

// oraclePrefix begins the names of models whose marginals are exact.
const oraclePrefix = "oracle:"

func isExact(name string) bool { return strings.HasPrefix(name, oraclePrefix) }

// parseExact makes a model of a name such as oracle:markov:length=16.
func parseExact(name string) (*oracle.Model, error) {
	return oracle.Parse(strings.TrimPrefix(name, oraclePrefix))
}

// loadExact is such a model with letters, or numbers, for its tokens.
func loadExact(name string) (*unmask.Model, error) {
	m, err := parseExact(name)
	if err != nil {
		return nil, err
	}
	info := model.Info{Architecture: "oracle", Sizes: map[string]int{"length": m.Length(), "tokens": m.Tokens()}, Tokenizer: "letters, or numbers above 26 tokens"}
	if shape := m.Shape(); len(shape) == 2 {
		info.Sizes["height"], info.Sizes["width"] = shape[0], shape[1]
	}
	l := &model.Loaded{Denoiser: oracle.NewDenoiser(m), Info: info, Kind: model.KindText, Tokenizer: oracle.Symbols(m, unmask.Hole)}
	return unmask.NewModel(l, plain.New(), nil), nil
}

// allowExact says of a command that it takes exact models too.
func allowExact(cmd *cobra.Command) {
	cmd.Flags().Lookup("model").Usage += ", or an exact one such as oracle:markov:length=16,tokens=4"
}

func errExactImages(name string) error {
	return usage("--model %s makes no images; allowed is MAGE", name)
}

// inspectExact shows what is known of an exact model.
func inspectExact(name string) (report, error) {
	m, err := parseExact(name)
	if err != nil {
		return report{}, usage("%v", err)
	}
	loaded, err := loadExact(name)
	if err != nil {
		return report{}, err
	}
	r := report{Model: name, Info: loaded.Info, DTypes: map[string]int{}}
	nats, deviation := m.Entropy()
	r.Entropy, r.EntropyError = &nats, deviation
	return r, nil
}
