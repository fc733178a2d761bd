package scores

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"unmask"
	"unmask/likelihood"
	"unmask/prompt"
)

// Mutation is one change or several at once, such as A24G:S31T.
type Mutation struct {
	Name string

	// changes are in the order of their positions.
	changes []change
}

// change is one token that becomes another; position is from 0.
type change struct {
	position int
	from     int32
	to       int32
}

// changeText matches one change: the letter in the sequence, its number from 1, the new letter.
var changeText = regexp.MustCompile(`^([^0-9\s])([0-9]{1,7})([^0-9\s])$`)

// ParseMutation reads a mutation of a sequence. The sequence must have the mutation's old letters,
// and no position may change twice.
func ParseMutation(t *prompt.Text, tokens []int32, name string) (Mutation, error) {
	m := Mutation{Name: name}
	for text := range strings.SplitSeq(name, ":") {
		c, err := parseChange(t, tokens, text)
		if err != nil {
			return m, err
		}
		m.changes = append(m.changes, c)
	}
	slices.SortFunc(m.changes, func(a, b change) int { return a.position - b.position })
	for i, c := range m.changes[1:] {
		if c.position == m.changes[i].position {
			return m, fmt.Errorf("mutation %.80s: position %d is changed twice, want once", name,
				c.position+1)
		}
	}
	return m, nil
}

// parseChange reads one change of tokens.
func parseChange(t *prompt.Text, tokens []int32, text string) (change, error) {
	fields := changeText.FindStringSubmatch(text)
	if fields == nil {
		return change{}, fmt.Errorf("mutation is %.40q, want one such as A24G", text)
	}
	number, err := strconv.Atoi(fields[2])
	if err != nil || number < 1 || number > len(tokens) {
		return change{}, fmt.Errorf("mutation %s is at position %s, want 1 to %d", text, fields[2],
			len(tokens))
	}
	c := change{position: number - 1}
	if c.from, err = encodeLetter(t, fields[1]); err != nil {
		return c, fmt.Errorf("mutation %s: %w", text, err)
	}
	if c.to, err = encodeLetter(t, fields[3]); err != nil {
		return c, fmt.Errorf("mutation %s: %w", text, err)
	}
	if tokens[c.position] != c.from {
		return c, fmt.Errorf("mutation %s: position %d has %s, want %s", text, number,
			t.Decode(tokens[c.position:number]), fields[1])
	}
	return c, nil
}

// encodeLetter returns the token of a letter.
func encodeLetter(t *prompt.Text, text string) (int32, error) {
	ids, err := t.Encode(text)
	if err != nil {
		return 0, err
	}
	if len(ids) != 1 {
		return 0, fmt.Errorf("%q is %d tokens, want 1", text, len(ids))
	}
	return ids[0], nil
}

// LogOdds returns log p(new) - log p(old) of each mutation of tokens, in nats, summed over its
// changes (Meier et al. 2021, "Language models enable zero-shot prediction of the effects of
// mutations on protein function"). Masked marginals mask all positions of a mutation at once;
// wild-type marginals, if visible, mask none, which takes one pass for all mutations. Mutations of
// the same positions share a pass.
func LogOdds(ctx context.Context, m *unmask.Model, tokens []int32, list []Mutation,
	visible bool) ([]float64, error) {
	odds := make([]float64, len(list))
	groups := map[string][]int{} // indexes of mutations, by the positions that a pass masks
	var order []string           // the keys of groups
	for i, mutation := range list {
		key := ""
		if !visible {
			for _, c := range mutation.changes {
				key += strconv.Itoa(c.position) + " "
			}
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], i)
	}

	for _, key := range order {
		changing := map[int][]int{} // indexes of the mutations that change a position
		var positions []int
		for _, i := range groups[key] {
			for _, c := range list[i].changes {
				if changing[c.position] == nil {
					positions = append(positions, c.position)
				}
				changing[c.position] = append(changing[c.position], i)
			}
		}
		marginals, _, unlock, err := computePass(ctx, m, tokens, positions, visible)
		if err != nil {
			return nil, err
		}
		unfit := -1 // a position without a distribution
		err = visitAll(marginals, m.Spec(), positions, func(p int, logits []float32) {
			if sum := likelihood.LogSum(logits, -1); math.IsNaN(sum) || math.IsInf(sum, 0) {
				unfit = p
			}
			for _, i := range changing[p] {
				odds[i] += list[i].logOddsAt(p, logits)
			}
		})
		unlock()
		if err != nil {
			return nil, err
		}
		if unfit >= 0 {
			return nil, noDistribution(unfit)
		}
	}
	return odds, nil
}

// logOddsAt returns the log-odds of the change at a position that the mutation has. The sum over
// all tokens is the same for both, so logits do.
func (m Mutation) logOddsAt(position int, logits []float32) float64 {
	i := slices.IndexFunc(m.changes, func(c change) bool { return c.position == position })
	c := m.changes[i]
	return float64(logits[c.to]) - float64(logits[c.from])
}
