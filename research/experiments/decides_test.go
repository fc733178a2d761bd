package experiments

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// An error shrinks with the square root of the number of samples; the value stays.
func TestShrunk(t *testing.T) {
	m := Measure{Value: 3}
	for g := range JackknifeGroups {
		m.LeaveOneOut = append(m.LeaveOneOut, 3+0.1*math.Sin(float64(g)))
	}
	require.Equal(t, m, m.withMoreSamples(0))
	require.Equal(t, m, m.withMoreSamples(1))
	for _, more := range []float64{2, 4, 100} {
		s := m.withMoreSamples(more)
		require.Equal(t, m.Value, s.Value)
		require.InDelta(t, m.Error()/math.Sqrt(more), s.Error(), 1e-12)
	}
	require.Equal(t, Measure{Value: 3}, Measure{Value: 3}.withMoreSamples(4))
}

// An undecided claim is decided by about Times the samples: its difference is then beyond 2.262
// standard errors.
func TestSamplesThatWouldDecide(t *testing.T) {
	var all []Result
	for _, kind := range []string{"text", "image"} {
		_, results, _, err := ReadJournal("../../docs/reproduction/results-" + kind + ".jsonl")
		require.NoError(t, err)
		all = append(all, results...)
	}
	said := 0
	measured := DefaultSize.WithSamples(60) // as docs/reproduction.md says
	for _, size := range []Size{QuickSize, measured, FullSize} {
		list := judgeClaims(all, size, 1)
		for i, v := range Verdicts(all, size) {
			require.Equal(t, list[i].Decided, v.Decided)
			switch {
			case v.Decided:
				require.Zero(t, v.SamplesFactor, v.Claim)
			case v.SamplesFactor > 0:
				said++
				require.Greater(t, v.SamplesFactor, 1.0, v.Claim)
				t.Log(size.Name, v.Claim, v.SamplesFactor)
				again := judgeClaims(all, size, 1.01*v.SamplesFactor)
				require.True(t, again[i].Decided, v.Claim)
			}
		}
	}
	require.Positive(t, said)
}

// Decide asks for seeds that are not there yet, of what an undecided claim reads; if these keep the
// values, the claim is decided soon.
func TestDecide(t *testing.T) {
	_, all, _, err := ReadJournal("../../docs/reproduction/results-text.jsonl")
	require.NoError(t, err)
	size := DefaultSize.WithSamples(60)
	// without the further seeds that are there
	all = (&Journal{Results: all}).Select("text", size.Points("text"))
	first, ok := ChooseFollowup(all, size)
	require.True(t, ok)
	require.Equal(t, "text", first.Kind)
	for _, v := range Verdicts(all, size) {
		if v.kind != "text" || v.Decided || v.SamplesFactor == 0 {
			require.NotEqual(t, first.Claim, v.Claim)
		} else if other := v.planFollowup(all, size); len(other.Points) > 0 {
			require.LessOrEqual(t, first.Cost, other.Cost, v.Claim)
		}
	}
	require.InDelta(t, 100, first.Cost, 100) // seconds, most of a minute or two
	for next, rounds := first, 0; ok && next.Claim == first.Claim; rounds++ {
		require.Less(t, rounds, 4)
		measured := Table{Kind: next.Kind, Results: all, N: 60}
		for _, p := range next.Points {
			have := measured.resultsAt(p.methodOnly(), p.Steps)
			require.NotEmpty(t, have)
			again := have[0]
			again.Point, again.Metrics = p, Metrics{}
			for name := range have[0].Metrics { // the value of all, without an error
				m := measured.metric(p.methodOnly(), p.Steps, name)
				for i := range m.LeaveOneOut {
					m.LeaveOneOut[i] = m.Value
				}
				again.Metrics[name] = m
			}
			for _, r := range have {
				require.NotEqual(t, r.Seed, p.Seed)
			}
			all = append(all, again)
		}
		next, ok = ChooseFollowup(all, size)
	}
	fewer := size.SelectResults("text", all[:len(all)-1])
	require.Less(t, len(fewer), len(size.SelectResults("text", all)))
	require.Empty(t, size.SelectResults("image", all))
	report := Report{Results: all, Size: size}
	require.Contains(t, string(report.Markdown("")), "Undecided claims got further seeds, up to ")
}
