package samplers

import "math"

// WeDLM opens the positions of a window whose entropy is low (Tencent 2026, WeDLM, the decoder of
// its engine): those with H + Penalty*(places after the first mask) below Entropy, or the one with
// the least. With reuse causal the window moves on as its first positions open.
type WeDLM struct {
	Entropy     float64 `param:"entropy 1e-9..1e3 =0.4" help:"a position below this opens, nats"`
	Penalty     float64 `param:"penalty 1e-9..1e3 =0.02" help:"added for each place after the first mask, nats"`
	Window      int     `param:"window 1..64 =16" help:"positions that may open, from the first mask on"`
	Temperature float64 `param:"temperature 1e-3..1e3 0=none" help:"of the tokens; 0 takes the most probable ones"`
	ownPace
}

// Windower is a Sampler whose positions are a window from the first mask on.
type Windower interface{ WindowSize() int }

// WindowSize implements Windower.
func (w WeDLM) WindowSize() int { return WithDefaults(w).Window }

// Needs entropies of the plain marginals, and tokens.
func (w WeDLM) Needs(int, int) Need {
	return needTokens(w.Temperature).Union(Need{Entropy: true})
}

// Choose opens the positions below the bound, the least first.
func (w WeDLM) Choose(v *View) (Opening, error) {
	w = WithDefaults(w)
	cost := func(i int) float64 {
		distance := v.Masked[i] - v.Masked[0]
		if distance >= w.Window {
			return math.Inf(1)
		}
		return v.Entropy[i] + w.Penalty*float64(distance)
	}
	ranked := v.Top(len(v.Masked), func(i int) float64 { return -cost(i) })
	below := v.firstWhile(ranked, 1, func(i int) bool { return cost(i) < w.Entropy })
	return v.candidates(w.Temperature).open(below), nil
}

// WithTemperature implements TemperatureRule: the temperature shapes the tokens, entropies are
// those of the model. It replaces the published run's own.
func (w WeDLM) WithTemperature(temperature float64) (any, float64, error) {
	w.Temperature = temperature
	return w, 1, nil
}
