package samplers

import (
	"cmp"
	"math"

	"unmask/param"
)

// WeDLM opens the positions of a window whose entropy is low (Tencent 2026, WeDLM, the decoder of
// its engine): those with H + Penalty*(places after the first mask) below Entropy, or the one with
// the least. With reuse causal the window moves on as its first positions open.
type WeDLM struct {
	Entropy     float64 // nats; 0 means 0.4
	Penalty     float64 // nats for each place; 0 means 0.02
	Window      int     // positions from the first mask on; 0 means 16
	Temperature float64 // of the tokens; 0 means the most probable ones
	ownPace
}

var wedlmRule = Rule[WeDLM]{
	Name: "wedlm", Line: "low entropy in a window that moves on, early positions first",
	Paper: "Tencent 2026, WeDLM",
	Params: []Param[WeDLM]{
		Number(func(w *WeDLM) *float64 { return &w.Entropy },
			param.Param{Name: "entropy", Min: 1e-9, Max: 1e3, Default: "0.4",
				Help: "a position below this opens, nats"}),
		Number(func(w *WeDLM) *float64 { return &w.Penalty },
			param.Param{Name: "penalty", Min: 1e-9, Max: 1e3, Default: "0.02",
				Help: "added for each place after the first mask, nats"}),
		Whole(func(w *WeDLM) *int { return &w.Window },
			param.Param{Name: "window", Min: 1, Max: MaxDraft, Default: "16",
				Help: "positions that may open, from the first mask on"}),
		Number(func(w *WeDLM) *float64 { return &w.Temperature }, tokenTemperature),
	},
}

// Windowed is a Sampler whose positions are a window from the first mask on.
type Windowed interface{ Positions() int }

// Positions implements Windowed.
func (w WeDLM) Positions() int { return cmp.Or(w.Window, 16) }

// Needs entropies of the plain marginals, and tokens.
func (w WeDLM) Needs(int, int) Need {
	return needTokens(w.Temperature).With(Need{Entropy: true})
}

// Choose opens the positions below the bound, the least first.
func (w WeDLM) Choose(v *View) (Opening, error) {
	bound, penalty := cmp.Or(w.Entropy, 0.4), cmp.Or(w.Penalty, 0.02)
	cost := func(i int) float64 {
		after := v.Masked[i] - v.Masked[0]
		if after >= w.Positions() {
			return math.Inf(1)
		}
		return v.Entropy[i] + penalty*float64(after)
	}
	ranked := v.Top(len(v.Masked), func(i int) float64 { return -cost(i) })
	below := v.first(ranked, 1, func(i int) bool { return cost(i) < bound })
	return v.candidates(w.Temperature).open(below), nil
}

// Tempered implements Tempered: the temperature shapes the tokens, entropies are those of the
// model. It replaces the published run's own.
func (w WeDLM) Tempered(temperature float64) (any, float64, error) {
	w.Temperature = temperature
	return w, 1, nil
}

// Uncached returns why there can be no second stage.
func (WeDLM) Uncached() string { return "wedlm draws tokens before it chooses positions" }
