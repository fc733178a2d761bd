package scenes

import (
	"image"
	"image/color"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// samplesOf gives drawn landscapes codes, of which each stands for the place of its block.
func samplesOf(n int, seed uint64) (list []Sample) {
	drawn, _ := Draw(n, seed)
	for _, m := range drawn {
		list = append(list, Sample{m.NRGBA(), []int32{0, 1, 2, 3}})
	}
	return list
}

// A drawn landscape is not garbled. Other neighbours of codes, waves and a sky like the sun make it
// so.
func TestChecker(t *testing.T) {
	list := samplesOf(60, 1)
	c := NewChecker(list, 2)
	require.Zero(t, c.Most().Pairs)
	for _, s := range list[:12] {
		if s.Picture == list[0].Picture || s.Picture == list[6].Picture { // held out
			require.False(t, c.IsGarbled(s))
		}
	}

	sound := list[0]
	inRows := paint(sound.Picture, func(x, _ int) uint8 { return uint8(x % 2 * 60) })
	inColumns := paint(sound.Picture, func(_, y int) uint8 { return uint8(y % 2 * 60) })
	for name, s := range map[string]Sample{
		"codes":   {sound.Picture, []int32{0, 2, 1, 3}},
		"waves":   {inRows, sound.Codes},
		"columns": {inColumns, sound.Codes},
		"light":   {fill(hours[day].light), sound.Codes},
	} {
		t.Run(name, func(t *testing.T) { require.True(t, c.IsGarbled(s), "%+v", c.Count(s)) })
	}
	require.False(t, c.IsGarbled(Sample{fill(hours[night].zenith), sound.Codes}))
}

// paint returns a picture with a band of greys at its top.
func paint(m *image.NRGBA, grey func(x, y int) uint8) *image.NRGBA {
	out := *m
	out.Pix = slices.Clone(m.Pix)
	for y := range 8 {
		for x := range sceneSide {
			g := grey(x, y)
			out.SetNRGBA(x, y, color.NRGBA{g, g, g, 255})
		}
	}
	return &out
}

// fill returns a picture of one colour.
func fill(c rgb) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, sceneSide, sceneSide))
	for y := range sceneSide {
		for x := range sceneSide {
			m.SetNRGBA(x, y, color.NRGBA{uint8(c[0]), uint8(c[1]), uint8(c[2]), 255})
		}
	}
	return m
}

// The top of a drawn landscape tells day from other hours, and most days show the sun.
func TestDays(t *testing.T) {
	list, names := Draw(300, 2)
	days := 0
	suns := 0
	for i, m := range list {
		require.Equal(t, names[i] == "day", IsDay(m.NRGBA()), "%d, %s", i, names[i])
		if names[i] != "day" {
			continue
		}
		days++
		if HasSun(m.NRGBA()) {
			suns++
		}
	}
	require.Greater(t, days, 80)
	require.Greater(t, suns, days*8/10)
	require.Less(t, suns, days, "hills hide some suns")
}
