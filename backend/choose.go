package backend

import "gorgonia.org/tensor"

// Chooser is a device that can choose positions and draw their tokens by itself, with nothing read
// in between. A Backend without it leaves that to its caller, to the same end.
type Chooser interface {
	// HeadChoose ranks rows, the candidates, and draws tokens of those that come first, as c says.
	// project returns the head's input of candidates first..first+n-1, n at most ChoiceRows, valid
	// until its next call.
	HeadChoose(rows int, project func(first, n int) *tensor.Dense, h Head, c *Choice)
}

const (
	ChoiceRows  = 1024 // candidates of one call of project
	ChoiceGroup = 4096 // candidates of a group
)

// Measure is what candidates are ranked by, the largest first, the lowest index among equals. Noise
// is that of internal/philox, u uniform in (0, 1) and xi = -log(-log(u)).
type Measure uint8

// The measures of the paper's samplers.
const (
	ByOrder  Measure = iota // Choice.Order of the position, the lowest first
	ByNoise                 // u
	ByMoment                // log sum_x p(x)^Beta + xi
	// log p(x) + Noise*xi of a token x drawn at every candidate, which is the token
	ByDraw
)

// Choice has how candidates of a batch's sequences are chosen and, after the call, which were.
type Choice struct {
	Groups   []Candidates
	Position []int32 // [rows] in its sequence, ascending in a group
	Seed     uint64  // of the noise, with Step
	Step     uint32

	By    [2]Measure // of the first and of the other candidates of a group
	Order []int32    // ByOrder: [positions]
	Beta  float64    // ByMoment
	Noise float64    // ByDraw
	Power float64    // tokens are drawn from p^Power

	// Results, group after group, the first to be chosen first.
	Row   []int32   // [sum of Count] index of the candidate
	Token []int32   // [sum of Draw]
	LogP  []float64 // [sum of Draw] log p(token)
	// the lowest candidate found to have no distribution, -1 for none; drawn ones show in LogP
	Undefined int
}

// Candidates are those of one sequence: Row..Row+Rows-1.
type Candidates struct {
	Row, Rows int
	Sequence  uint32 // of the noise
	First     int    // how many are chosen by By[0]
	Count     int    // how many are chosen in all
	Draw      int    // how many of these, the first, get tokens
}

// Chosen returns how many candidates are chosen and how many drawn.
func (c *Choice) Chosen() (chosen, drawn int) {
	for _, g := range c.Groups {
		chosen += g.Count
		drawn += g.Draw
	}
	return chosen, drawn
}

// Uses reports whether any group is ranked by m.
func (c *Choice) Uses(m Measure) bool {
	for _, g := range c.Groups {
		if g.First > 0 && c.By[0] == m || g.Count > g.First && c.By[1] == m {
			return true
		}
	}
	return false
}

// CheckChoice checks the arguments of HeadChoose.
func CheckChoice(rows int, h Head, c *Choice) {
	const kernel = "HeadChoose"
	if h.Outcomes < 1 || h.Outcomes > h.W.Out() {
		misuse(kernel, "%d outcomes of [%d, %d] weights", h.Outcomes, h.W.Out(), h.W.In())
	}
	checkVector(kernel, "Bias", h.Bias, h.W.Out())
	checkExponent(kernel, "Beta", c.Beta)
	checkExponent(kernel, "Noise", c.Noise)
	checkExponent(kernel, "Power", c.Power)
	if len(c.Position) < rows {
		misuse(kernel, "%d positions, need %d", len(c.Position), rows)
	}
	for i, g := range c.Groups {
		if g.Row < 0 || g.Rows < 0 || g.Row+g.Rows > rows || g.Rows > ChoiceGroup ||
			g.First < 0 || g.First > g.Count || g.Count > g.Rows || g.Draw < 0 || g.Draw > g.Count {
			misuse(kernel, "group %d is %+v, of %d rows", i, g, rows)
		}
	}
	if c.Uses(ByDraw) && (c.By[0] != c.By[1] || c.Power != 1) {
		misuse(kernel, "tokens that are drawn at every row come from p, and rank all rows")
	}
	if c.Uses(ByOrder) {
		for i, p := range c.Position[:rows] {
			if p < 0 || int(p) >= len(c.Order) {
				misuse(kernel, "row %d is position %d of %d", i, p, len(c.Order))
			}
		}
	}
	chosen, drawn := c.Chosen()
	if len(c.Row) < chosen || len(c.Token) < drawn || len(c.LogP) < drawn {
		misuse(kernel, "results for %d rows and %d, %d tokens, need %d and %d", len(c.Row), len(c.Token),
			len(c.LogP), chosen, drawn)
	}
}
