package backend

import (
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend/rank"
)

// Chooser is a device that can choose positions and draw their tokens without copying anything to
// the host in between. For other Backends the caller does this, with the same result.
type Chooser interface {
	// HeadChoose ranks rows, the candidates, and draws tokens for the first ones, as c describes.
	// project returns the head's input of candidates first..first+n-1, with n at most ChoiceRows,
	// valid until its next call.
	HeadChoose(rows int, project func(first, n int) *tensor.Dense, h Head, c *Choice)
}

// Limits of HeadChoose.
const (
	ChoiceRows  = 1024 // most candidates of one call of project
	ChoiceGroup = 4096 // most candidates of a group, which a device sorts at once
)

// Choice holds how the candidates of a batch's sequences are chosen and, after the call, the
// results.
type Choice struct {
	Groups []Candidates

	// Position is [rows]: each candidate's position in its sequence, ascending within a group.
	Position []int32

	// Seed and Step are those of the random numbers.
	Seed uint64
	Step uint32

	// Measures rank the first and the other candidates of a group.
	Measures [2]rank.Measure

	// Order is [positions], for ByOrder; Beta is for ByMoment, Noise for ByDraw.
	Order []int32
	Beta  float64
	Noise float64

	// Power is that of p^Power, from which tokens are drawn.
	Power float64

	// The results, group after group, in the order of choice: the index of each candidate [sum of
	// Count], and the tokens and their log p [sum of DrawCount].
	Row   []int32
	Token []int32
	LogP  []float64

	// Undefined is the lowest candidate found without a distribution, -1 for none. Candidates whose
	// token is drawn are not looked at for it: they have NaN in LogP.
	Undefined int
}

// Candidates are those of one sequence: rows Row..Row+Rows-1.
type Candidates struct {
	Row, Rows int

	// Sequence is that of the random numbers.
	Sequence uint32

	// Count candidates are chosen, the first FirstCount of them by Measures[0]. The tokens of the
	// first DrawCount are drawn.
	FirstCount int
	Count      int
	DrawCount  int
}

// Counts returns the number of candidates chosen, and the number drawn.
func (c *Choice) Counts() (chosen, drawn int) {
	for _, g := range c.Groups {
		chosen += g.Count
		drawn += g.DrawCount
	}
	return chosen, drawn
}

// RanksBy reports whether any group is ranked by m.
func (c *Choice) RanksBy(m rank.Measure) bool {
	return slices.ContainsFunc(c.Groups, func(g Candidates) bool {
		return g.FirstCount > 0 && c.Measures[0] == m || g.Count > g.FirstCount && c.Measures[1] == m
	})
}

// CheckChoice checks the arguments of HeadChoose.
func CheckChoice(rows int, h Head, c *Choice) {
	const kernel = "HeadChoose"
	checkOutcomes(kernel, h)
	checkExponent(kernel, "Beta", c.Beta)
	checkExponent(kernel, "Noise", c.Noise)
	checkExponent(kernel, "Power", c.Power)
	if len(c.Position) < rows {
		misuse(kernel, "%d positions, need %d", len(c.Position), rows)
	}
	for i, g := range c.Groups {
		if g.Row < 0 || g.Rows < 0 || g.Row+g.Rows > rows || g.Rows > ChoiceGroup ||
			g.FirstCount < 0 || g.FirstCount > g.Count || g.Count > g.Rows ||
			g.DrawCount < 0 || g.DrawCount > g.Count {
			misuse(kernel, "group %d is %+v, of %d rows", i, g, rows)
		}
	}
	if c.RanksBy(rank.ByDraw) && (c.Measures[0] != c.Measures[1] || c.Power != 1) {
		misuse(kernel, "tokens that are drawn at every row come from p, and rank all rows")
	}
	if c.RanksBy(rank.ByOrder) {
		for i, p := range c.Position[:rows] {
			if p < 0 || int(p) >= len(c.Order) {
				misuse(kernel, "row %d is position %d of %d", i, p, len(c.Order))
			}
		}
	}
	chosen, drawn := c.Counts()
	if len(c.Row) < chosen || len(c.Token) < drawn || len(c.LogP) < drawn {
		misuse(kernel, "results for %d rows and %d, %d tokens, need %d and %d", len(c.Row), len(c.Token),
			len(c.LogP), chosen, drawn)
	}
}
