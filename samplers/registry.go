package samplers

import (
	"fmt"
	"slices"
	"strings"
)

// Options are the parameters that samplers have. Zero means the authors' default.
type Options struct {
	Alpha float64 // Gumbel temperature of maskgit, moment, u-moment, temp, hybrid: 6
	Gamma float64 // exponent that tokens are drawn with, for an order on its own: 1
	Bits  int     // of vanilla's arithmetic, 32 or 64: 64

	Temperature float64 // of the order, for confidence, margin, entropy: 0, none; of info-gain: 0.1
	Budget      float64 // of eb, nats: 0.1
	Theta       float64 // confidence that threshold wants: 0.9; of theta-trapezoidal: 0.5
	F           float64 // of factor: 1
	Block       int     // positions of semi-ar's blocks: 32
	Kappa       float64 // KL below which klass calls a marginal stable, nats: 0.01
	Confidence  float64 // that klass wants: 0.9
	Tau         float64 // temperature of p2's draws: 1
	Eta         float64 // weight of open positions in p2: 1; remasking of remdm: 0.008, 0.015 or 0.02
	Sets        int     // candidates of info-gain: 8
	Strategy    string  // of remdm: cap, rescale, conf or loop: cap
}

// Info describes a sampler by its name.
type Info struct {
	Name   string
	Line   string   // what it does
	Paper  string   // whose it is
	Params []string // keys that Parse takes in parentheses
	Inner  string   // what may stand in parentheses, such as "an order"; "" for nothing
}

// entry builds an Order or a Sampler.
type entry struct {
	Info
	build func(o Options, inner []any) (any, error)
}

const hayakawa = "Hayakawa et al. 2025, Demystifying MaskGIT Sampler and Beyond"

var registry = []entry{
	{Info{"random", "uniformly random positions", hayakawa, []string{"gamma"}, ""},
		func(o Options, _ []any) (any, error) { return Random{}, nil }},
	{Info{"vanilla", "each position opens by its own coin", "Sahoo et al. 2024, MDLM; Deschenaux and Gulcehre 2024, SDTT", []string{"bits"}, ""},
		func(o Options, _ []any) (any, error) { return Vanilla{Bits: o.Bits}, nil }},
	{Info{"maskgit", "draws everywhere, keeps the most confident", "Chang et al. 2022, MaskGIT", []string{"alpha"}, ""},
		func(o Options, _ []any) (any, error) { return MaskGIT{Alpha: o.Alpha}, nil }},
	{Info{"moment", "maskgit's equal that chooses first: moment order, tokens from p^beta", hayakawa, []string{"alpha"}, ""},
		func(o Options, _ []any) (any, error) {
			return ChooseThenSample{Order: Moment{o.Alpha}, Alpha: orDefault(o.Alpha, DefaultAlpha)}, nil
		}},
	{Info{"u-moment", "moment order, tokens from p", hayakawa, []string{"alpha", "gamma"}, ""},
		func(o Options, _ []any) (any, error) { return Moment{o.Alpha}, nil }},
	{Info{"temp", "random positions, tokens from p^beta", hayakawa, []string{"alpha"}, ""},
		func(o Options, _ []any) (any, error) {
			return ChooseThenSample{Order: Random{}, Alpha: orDefault(o.Alpha, DefaultAlpha)}, nil
		}},
	{Info{"halton", "a fixed order that spreads over text or image", "Besnier et al. 2025, Halton Scheduler", []string{"gamma"}, ""},
		func(o Options, _ []any) (any, error) { return Halton{}, nil }},
	{Info{"hybrid", "halton first, u-moment more and more; or two orders of your own", hayakawa, []string{"alpha", "gamma"}, "two orders"},
		func(o Options, inner []any) (any, error) {
			h := Hybrid{Exploit: Moment{o.Alpha}}
			switch len(inner) {
			case 0:
				return h, nil
			case 2:
			default:
				return nil, fmt.Errorf("hybrid takes two orders or none, found %d", len(inner))
			}
			var err error
			if h.Explore, err = order("hybrid", inner[0]); err != nil {
				return nil, err
			}
			h.Exploit, err = order("hybrid", inner[1])
			return h, err
		}},
	{Info{"confidence", "the most probable token first", "Zheng et al. 2023, Reparameterized Discrete Diffusion", []string{"temperature", "gamma"}, ""},
		func(o Options, _ []any) (any, error) { return Confidence{o.Temperature}, nil }},
	{Info{"margin", "the widest gap between the two most probable first", "Kim et al. 2025, Train for the Worst, Plan for the Best", []string{"temperature", "gamma"}, ""},
		func(o Options, _ []any) (any, error) { return Margin{o.Temperature}, nil }},
	{Info{"entropy", "the lowest entropy first", "Xiang et al. 2022, MIMT", []string{"temperature", "gamma"}, ""},
		func(o Options, _ []any) (any, error) { return Entropy{o.Temperature}, nil }},
	{Info{"eb", "as many as an entropy budget allows, by any order", "Ben-Hamu et al. 2025, Entropy Bounded Unmasking", []string{"budget"}, "an order"},
		func(o Options, inner []any) (any, error) {
			e := EB{Budget: o.Budget}
			if len(inner) > 1 {
				return nil, fmt.Errorf("eb takes one order or none, found %d", len(inner))
			}
			for _, rule := range inner {
				var err error
				if e.Order, err = order("eb", rule); err != nil {
					return nil, err
				}
			}
			return e, nil
		}},
	{Info{"first-hitting", "one at a time, at its exact time", "Zheng et al. 2024, Secretly Time-Agnostic Masked Models", nil, ""},
		func(o Options, _ []any) (any, error) { return FirstHitting{}, nil }},
	{Info{"threshold", "all that are confident enough", "Wu et al. 2025, Fast-dLLM", []string{"theta"}, ""},
		func(o Options, _ []any) (any, error) { return Threshold{o.Theta}, nil }},
	{Info{"factor", "as many as their confidence together allows", "Wu et al. 2025, Fast-dLLM", []string{"f"}, ""},
		func(o Options, _ []any) (any, error) { return Factor{o.F}, nil }},
	{Info{"semi-ar", "blocks left to right, any sampler in a block", "Nie et al. 2025, LLaDA", []string{"block", "gamma"}, "a sampler"},
		func(o Options, inner []any) (any, error) {
			switch len(inner) {
			case 0:
				inner = []any{Confidence{}}
			case 1:
			default:
				return nil, fmt.Errorf("semi-ar takes one sampler or none, found %d", len(inner))
			}
			return SemiAR{Inside: sampler(inner[0], o.Gamma), Block: o.Block}, nil
		}},
	{Info{"klass", "what is confident and has stopped moving", "Kim et al. 2025, KLASS", []string{"kappa", "confidence"}, ""},
		func(o Options, _ []any) (any, error) { return KLASS{Kappa: o.Kappa, Confidence: o.Confidence}, nil }},
	{Info{"info-gain", "the set that leaves the least uncertain, by looking ahead", "github.com/yks23/Information-Gain-Sampler, 2026", []string{"sets", "temperature"}, ""},
		func(o Options, _ []any) (any, error) { return InfoGain{Sets: o.Sets, Temperature: o.Temperature}, nil }},
	{Info{"p2", "the least likely tokens are masked again", "Peng et al. 2025, Path Planning", []string{"tau", "eta"}, ""},
		func(o Options, _ []any) (any, error) { return P2{Tau: o.Tau, Eta: o.Eta}, nil }},
	{Info{"remdm", "vanilla that masks again by chance", "Wang et al. 2025, Remasking Discrete Diffusion", []string{"strategy", "eta"}, ""},
		func(o Options, _ []any) (any, error) { return ReMDM{Strategy: o.Strategy, Eta: o.Eta}, nil }},
	{Info{"theta-trapezoidal", "coins of second order, two evaluations a step", "Ren et al. 2025, Fast Solvers for Discrete Diffusion", []string{"theta"}, ""},
		func(o Options, _ []any) (any, error) { return ThetaTrapezoidal{o.Theta}, nil }},
}

// List describes all samplers, the paper's first.
func List() []Info {
	var out []Info
	for _, e := range registry {
		out = append(out, e.Info)
	}
	return out
}

// order takes what is, or stands for, an order.
func order(where string, rule any) (Order, error) {
	switch r := rule.(type) {
	case Order:
		return r, nil
	case ChooseThenSample:
		return r.Order, nil
	}
	return nil, fmt.Errorf("%s takes an order, found a sampler that is more than one", where)
}

// sampler makes an order a sampler.
func sampler(rule any, gamma float64) Sampler {
	if o, ok := rule.(Order); ok {
		return ChooseThenSample{Order: o, Gamma: gamma}
	}
	return rule.(Sampler)
}

// unknown is the error for a name that nothing has.
func unknown(kind, name string, known []string) error {
	slices.Sort(known)
	return fmt.Errorf("unknown %s %q, want one of %s", kind, name, strings.Join(known, ", "))
}
