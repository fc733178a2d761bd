package fasta

import (
	"strings"
	"testing"
	"testing/iotest"

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

// A file reads alike however its lines end, with comments and a byte order mark.
func TestReadKinds(t *testing.T) {
	want := []Record{{"a", "MKTAYIAK"}, {"b", "M-X*"}}
	for name, text := range map[string]string{
		"Unix": ">a\nMKTA\nYIAK\n>b\nM-X*\n", "Windows": ">a\r\nMKTA\r\nYIAK\r\n>b\r\nM-X*",
		"CR":         ">a\rMKTA\rYIAK\r\r>b\rM-X*\r",
		"mixed":      ">a\rMKTA\r\nYIAK\n\r>b\nM-X*",
		"comments":   ";first\n>a\nMKTA\n; within\nYIAK\n;\n>b\nM-X*\n;last",
		"mark":       "\ufeff>a\nMKTAYIAK\n>b\nM-X*",
		"mark and ;": "\ufeff;x\r\n>a\r\nMKTAYIAK\r\n>b\r\nM-X*",
		"two files":  ">a\nMKTAYIAK\n\ufeff>b\nM-X*",
	} {
		t.Run(name, func(t *testing.T) {
			list, err := Read(iotest.OneByteReader(strings.NewReader(text)))
			require.NoError(t, err)
			require.Equal(t, want, list)
			again, err := Read(strings.NewReader(text))
			require.NoError(t, err)
			require.Equal(t, want, again)
			require.True(t, HasHeader([]byte(text)))
		})
	}
	for _, name := range []string{"a.fasta", "b.FASTA", "c.fas", "x.y.Fa", "d.FAA", "e.fna"} {
		require.True(t, IsFile(name), name)
	}
	for _, name := range []string{"fasta", "a.txt", "a.fasta.jsonl"} {
		require.False(t, IsFile(name), name)
	}
	for _, head := range []string{"", "EVQ\n>a", "; a text", "\ufeffEVQ"} {
		require.False(t, HasHeader([]byte(head)), head)
	}
}

func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                "there are 0 sequences, want at least 1",
		"EVQ\n":           `line 1 is "EVQ", want > and a name first`,
		">a\n>b\nE\n":     `line 2: "a" has no sequence`,
		">a\nE\n>b\n\n ":  `line 5: "b" has no sequence`,
		">a\rE\r>b\r":     `line 3: "b" has no sequence`,
		"\xff\xfe>\x00":   "the file is UTF-16, want UTF-8",
		"\x1f\x8b\x08":    "the file is compressed by gzip, want it unpacked",
		"<!DOCTYPE html>": "a web page, want the file that was to be downloaded",
	} {
		_, err := Read(strings.NewReader(text))
		require.EqualError(t, err, want)
	}
}

// Small letters are the letters; holes and bytes that are not UTF-8 stay.
func TestUnmaskLetters(t *testing.T) {
	list := []Record{{Name: "small", Sequence: "acD[3]\xff"}, {Name: "b", Sequence: "ACD"}}
	require.Equal(t, 1, UnmaskLetters(list))
	require.Equal(t, []Record{{Name: "small", Sequence: "ACD[3]\xff"}, {Name: "b", Sequence: "ACD"}},
		list)
}
