package schema_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/grammar/schema"
)

var (
	corpus = flag.String("corpus", "", "a FILE of schemas with instances to judge, a line of JSON "+
		"each, which may be compressed")
	suite = flag.String("suite", "", "a folder tests/DRAFT of JSON-Schema-Test-Suite to judge")
)

// judged counts schemas by verdict: all instances judged right, one accepted wrongly, a valid one
// left out, or the schema refused.
type judged struct{ right, wrong, left, refused int }

// instance is a value of which it is known whether a schema allows it.
type instance struct {
	Data  json.RawMessage `json:"data"`
	Valid bool            `json:"valid"`
}

// judge compiles a schema and compares what it accepts with what is known of its instances.
func (j *judged) judge(t *testing.T, name string, text json.RawMessage, tests []instance) {
	s, err := schema.Compile(text, schema.Options{})
	if err != nil {
		valid := slices.ContainsFunc(tests, func(one instance) bool { return one.Valid })
		if !valid && strings.HasPrefix(err.Error(), "the schema allows no value") {
			j.right++
			return
		}
		j.refused++
		t.Logf("refused %s: %v", name, err)
		return
	}
	verdict := &j.right
	for _, one := range tests {
		out, err := s.Write(one.Data)
		require.NoError(t, err)
		if accepted := s.Match(out); accepted != one.Valid {
			if verdict = &j.left; accepted {
				verdict = &j.wrong
			}
			t.Logf("accepted %v, %s: %.200s", accepted, name, one.Data)
		}
	}
	*verdict++
}

// Of a corpus that the flag names, no schema accepts an invalid instance, and at least 95 % are
// judged right; others leave out what is larger than their automata, or are refused by name.
func TestCorpus(t *testing.T) {
	if *corpus == "" {
		t.Skip("measures the file of -corpus, and there is none")
	}
	f, err := os.Open(*corpus)
	require.NoError(t, err)
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(*corpus, ".gz") {
		in, err = gzip.NewReader(f)
		require.NoError(t, err)
	}
	var all judged
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var row struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
			Tests  []instance      `json:"tests"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
		all.judge(t, row.Name, row.Schema, row.Tests)
	}
	require.NoError(t, lines.Err())
	t.Logf("%+v", all)
	require.Zero(t, all.wrong)
	require.GreaterOrEqual(t, 100*all.right, 95*(all.right+all.left+all.refused))
}

// Of the groups of JSON-Schema-Test-Suite, no schema accepts an invalid instance. What drafts
// before 2019-09 allow to check of contentEncoding and contentMediaType is not checked.
func TestSuite(t *testing.T) {
	if *suite == "" {
		t.Skip("measures the folder of -suite, and there is none")
	}
	var files []string
	for _, under := range []string{"", "optional", "optional/format"} {
		list, err := filepath.Glob(filepath.Join(*suite, under, "*.json"))
		require.NoError(t, err)
		files = append(files, list...)
	}
	var all judged
	for _, file := range files {
		if filepath.Base(file) == "content.json" {
			continue
		}
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var groups []struct {
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"schema"`
			Tests       []instance      `json:"tests"`
		}
		require.NoError(t, json.Unmarshal(data, &groups))
		for _, g := range groups {
			all.judge(t, filepath.Base(file)+": "+g.Description, inDraft(t, g.Schema), g.Tests)
		}
	}
	t.Logf("%+v", all)
	require.Zero(t, all.wrong)
}

// inDraft returns a schema that says of which draft it is, as its folder does.
func inDraft(t *testing.T, text json.RawMessage) json.RawMessage {
	var s map[string]any
	if json.Unmarshal(text, &s) != nil || s["$schema"] != nil {
		return text
	}
	draft := strings.TrimPrefix(filepath.Base(*suite), "draft")
	if s["$schema"] = "draft/" + draft; len(draft) == 1 {
		s["$schema"] = "draft-0" + draft
	}
	text, err := json.Marshal(s)
	require.NoError(t, err)
	return text
}
