package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/server"
	"unmask/server/page"
)

// The tests of this file hold sentences of docs/serving.md that no other one does;
// docs/dev/promises.md has all of them.

// RFC 3986 calls /%76%31/models equal to /v1/models. Proxies with rules for paths do not.
func TestPathsAreTakenAsWritten(t *testing.T) {
	_, h := serving(t, server.Options{})
	for path, want := range map[string]int{"/v1/models": 200, "/%76%31/models": 404,
		"/v1/%6dodels": 404} {
		status, _, data := get(t, h.URL+path)
		require.Equal(t, want, status, "%s: %s", path, data)
	}
}

// A body has at most 2^17 names and 2^21 values, however few bytes they have.
func TestTooManyValuesAreRefused(t *testing.T) {
	s := echoing(t)
	var names strings.Builder
	for i := range 1<<17 + 1 {
		fmt.Fprintf(&names, `"%d":0,`, i)
	}
	for body, want := range map[string]string{
		`{` + names.String() + `"input":"a"}`:                      "too_many_values",
		`{"input":[` + strings.Repeat("0,", 1<<21) + `0]}`:         "too_many_values",
		`{"input":[` + strings.Repeat(`[0],`, 3000) + `[0]]}`:      "out_of_range",
		`{"input":"a","model":"embed-bert-tiny","dimensions":"a"}`: "wrong_type",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "http://127.0.0.1/v1/embeddings", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		s.Handler().ServeHTTP(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code, "%.40s: %s", body, w.Body)
		require.Contains(t, w.Body.String(), `"`+want+`"`, "%.40s", body)
	}
}

// openapi.json belongs to the page.
func TestDescriptionComesWithThePage(t *testing.T) {
	for _, hasPage := range []bool{false, true} {
		o := server.Options{}
		want := 404
		if hasPage {
			o.Page = page.Handler()
			want = 200
		}
		_, h := serving(t, o)
		for _, path := range []string{"/openapi.json", "/"} {
			status, _, _ := get(t, h.URL+path)
			require.Equal(t, want, status, path)
		}
	}
}

// Answers are kept within a bound of bytes; those that were not asked for longest go first.
func TestKeptAnswersAreBounded(t *testing.T) {
	_, h := serving(t, server.Options{Cache: 64 << 10})
	isKept := func(seed int) bool {
		_, header, data := post(t, h.URL+"/v1/completions",
			fmt.Sprintf(`{"prompt":"A","max_tokens":40,"steps":1,"seed":%d}`, seed))
		require.Contains(t, string(data), `"choices"`)
		return header.Get("Unmask-Cache") == "hit"
	}
	require.False(t, isKept(0))
	require.True(t, isKept(0))
	for seed := range 60 {
		isKept(seed)
	}
	require.True(t, isKept(59))
	require.False(t, isKept(0))
}

// A process that serves has one processor more for its sockets, and collects garbage at a quarter,
// unless its environment says something else.
func TestProcessesAreTuned(t *testing.T) {
	processors := runtime.GOMAXPROCS(0)
	percent := debug.SetGCPercent(100)
	defer func() {
		runtime.GOMAXPROCS(processors)
		debug.SetGCPercent(percent)
	}()
	t.Setenv("GOMAXPROCS", "2")
	t.Setenv("GOGC", "100")
	server.TuneProcess()
	require.Equal(t, processors, runtime.GOMAXPROCS(0))
	require.Equal(t, 100, debug.SetGCPercent(100))

	t.Setenv("GOMAXPROCS", "")
	t.Setenv("GOGC", "")
	server.TuneProcess()
	require.Equal(t, processors+1, runtime.GOMAXPROCS(0))
	require.Equal(t, 25, debug.SetGCPercent(100))
}
