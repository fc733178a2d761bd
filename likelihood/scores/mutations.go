package scores

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"unmask"
	"unmask/prompt"
)

// Mutation is one change or several at once, such as A24G:S31T.
type Mutation struct {
	Name    string
	changes []change // in the order of their positions
}

type change struct {
	position int // from 0
	from, to int32
}

// mutation matches one change: the letter in the sequence, its number from 1, the new letter.
var mutation = regexp.MustCompile(`^([^0-9\s])([0-9]{1,7})([^0-9\s])$`)

// ParseMutation reads a mutation of tokens, which must have its old letters, and each position
// once.
func ParseMutation(t *prompt.Text, tokens []int32, name string) (Mutation, error) {
	m := Mutation{Name: name}
	for one := range strings.SplitSeq(name, ":") {
		part := mutation.FindStringSubmatch(one)
		if part == nil {
			return m, fmt.Errorf("mutation is %.40q, want one such as A24G", one)
		}
		p, err := strconv.Atoi(part[2])
		if err != nil || p < 1 || p > len(tokens) {
			return m, fmt.Errorf("mutation %s is at position %s, want 1 to %d", one, part[2], len(tokens))
		}
		c := change{position: p - 1}
		for i, to := range map[int]*int32{1: &c.from, 3: &c.to} {
			if *to, err = letter(t, part[i]); err != nil {
				return m, fmt.Errorf("mutation %s: %w", one, err)
			}
		}
		if tokens[p-1] != c.from {
			return m, fmt.Errorf("mutation %s: position %d has %s, want %s", one, p,
				t.Decode(tokens[p-1:p]), part[1])
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

func letter(t *prompt.Text, text string) (int32, error) {
	ids, err := t.Encode(text)
	if err == nil && len(ids) != 1 {
		err = fmt.Errorf("%q is %d tokens, want 1", text, len(ids))
	}
	if err != nil {
		return 0, err
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
	groups, order := map[string][]int{}, []string{}
	for i, mutation := range list {
		key := ""
		for _, c := range mutation.changes {
			if !visible {
				key += strconv.Itoa(c.position) + " "
			}
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], i)
	}
	for _, key := range order {
		at := map[int][]int{} // mutations that change a position
		var positions []int
		for _, i := range groups[key] {
			for _, c := range list[i].changes {
				if at[c.position] == nil {
					positions = append(positions, c.position)
				}
				at[c.position] = append(at[c.position], i)
			}
		}
		marginals, _, unlock, err := pass(ctx, m, tokens, positions, visible)
		if err != nil {
			return nil, err
		}
		err = visitAll(marginals, m.Spec(), positions, func(p int, logits []float32) {
			for _, i := range at[p] {
				odds[i] += list[i].at(p, logits)
			}
		})
		unlock()
		if err != nil {
			return nil, err
		}
	}
	return odds, nil
}

// at returns the log-odds of the change at a position that the mutation has.
func (m Mutation) at(position int, logits []float32) float64 {
	i := slices.IndexFunc(m.changes, func(c change) bool { return c.position == position })
	return float64(logits[m.changes[i].to]) - float64(logits[m.changes[i].from])
}
