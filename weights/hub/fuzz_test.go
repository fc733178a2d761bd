package hub

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a server says of a file becomes parts of paths and sizes: whatever it says, they have
// the form of a hash and are no less than -1, unknown.
func FuzzHeaders(f *testing.F) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	f.Add(200, commit, `"`+commit+`"`, "12", "bytes 3-11/12", int64(3))
	f.Add(302, commit, `W/"`+commit+`"`, "", "bytes 0-0/*", int64(0))
	f.Add(200, "../..", `"../x"`, "-1", "bytes 18446744073709551616-1/2", int64(1))
	f.Add(200, commit, commit, "9223372036854775808", "bytes -3/12", int64(-3))
	f.Fuzz(func(t *testing.T, status int, commit, etag, size, span string, have int64) {
		header := http.Header{}
		header.Set("X-Repo-Commit", commit)
		header.Set("X-Linked-Etag", etag)
		header.Set("Content-Length", size)
		m, err := parseRemote(&http.Response{StatusCode: status, Header: header})
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.Regexp(t, `^[0-9a-f]{40}$`, m.commit)
		require.Regexp(t, `^([0-9a-f]{40}|[0-9a-f]{64})$`, m.etag)
		require.GreaterOrEqual(t, m.size, int64(-1))
		d := download{remoteFile: m}
		if err := d.checkRange(span, have); err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.GreaterOrEqual(t, have, int64(0))
		require.Contains(t, span, "bytes "+strconv.FormatInt(have, 10)+"-")
	})
}
