package lru

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCache(t *testing.T) {
	type put struct {
		key, owner string
		bytes      int64
	}
	for name, of := range map[string]struct {
		puts []put
		kept []string
	}{
		"what was not used goes first": {[]put{{"a", "", 4}, {"b", "", 4}, {"c", "", 4}},
			[]string{"b", "c"}},
		"too large for all": {[]put{{"a", "", 4}, {"b", "", 11}}, []string{"a"}},
		"the owner of the most loses": {[]put{{"a", "x", 2}, {"b", "y", 4}, {"c", "y", 4}, {"d", "x", 2}},
			[]string{"a", "c", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := New[string, string](10)
			var kept []string
			for _, p := range of.puts {
				c.Put(p.key, p.key, p.owner, p.bytes)
			}
			for _, p := range of.puts {
				if value, ok := c.Get(p.key); ok {
					require.Equal(t, p.key, value)
					kept = append(kept, value)
				}
			}
			require.Equal(t, of.kept, kept)
		})
	}
}

func TestGetIsUse(t *testing.T) {
	c := New[int, int](2)
	c.Put(1, 10, "", 1)
	c.Put(2, 20, "", 1)
	c.Put(1, 11, "", 1) // there already
	value, ok := c.Get(1)
	require.True(t, ok)
	require.Equal(t, 10, value)
	c.Put(3, 30, "", 1)
	_, ok = c.Get(2)
	require.False(t, ok)
}
