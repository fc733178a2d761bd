package fasta

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadAndAppend(t *testing.T) {
	list, err := Read(strings.NewReader(">a first\r\nEVQ LV\r\n\n ESG\n>b\nQ[10]V\n"))
	require.NoError(t, err)
	require.Equal(t, []Record{{"a first", "EVQLVESG"}, {"b", "Q[10]V"}}, list)

	long := Record{"x", strings.Repeat("A", 61)}
	text := string(Append(nil, long))
	require.Equal(t, ">x\n"+strings.Repeat("A", 60)+"\nA\n", text)
	list, err = Read(strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, []Record{long}, list)
}

func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":               "there are 0 sequences, want at least 1",
		"EVQ\n":          `line 1 is "EVQ", want > and a name first`,
		">a\n>b\nE\n":    `line 2: "a" has no sequence`,
		">a\nE\n>b\n\n ": `line 5: "b" has no sequence`,
	} {
		_, err := Read(strings.NewReader(text))
		require.EqualError(t, err, want)
	}
}
