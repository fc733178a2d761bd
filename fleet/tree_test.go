package fleet

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func someTree(t *testing.T) (Tree, string) {
	dir := filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "codec"), 0o777))
	for name, data := range map[string]string{"config.json": "{}",
		"model.safetensors":       "weights of some size",
		"codec/model.safetensors": "more", ".hidden": "x"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o666))
	}
	tree, err := NewTree("model", dir)
	require.NoError(t, err)
	require.Len(t, tree.Files, 3)
	return tree, dir
}

// Files travel in pieces; what was broken off goes on, and what arrives damaged is fetched again.
func TestFetch(t *testing.T) {
	tree, dir := someTree(t)
	c := cache{t.TempDir()}
	asked, fail, spoil := 0, 5, false
	places := placesByHash([]Tree{tree})
	fetch := func(f File, to string) error {
		return fetchFile(f, to, func(offset int64) ([]byte, error) {
			if asked++; asked == fail {
				return nil, errors.New("cut off")
			}
			data, _, err := readFileSlice(places[f.SHA256], offset, 3)
			if spoil {
				data[0] ^= 1
			}
			return data, err
		})
	}
	var place string
	var err error
	for place, err = c.place(&tree, nil, fetch); err != nil; place, err = c.place(&tree, nil, fetch) {
		require.ErrorContains(t, err, "cut off")
		fail += 4
	}
	total := 0
	for _, f := range tree.Files {
		total += int(f.Size+2) / 3
	}
	require.Less(t, asked, total+10) // no piece came twice but those that failed
	require.True(t, tree.matches(place))
	require.Equal(t, "model", filepath.Base(place))
	before := asked
	_, err = c.place(&tree, nil, fetch)
	require.NoError(t, err)
	require.Equal(t, before, asked)

	other := cache{t.TempDir()}
	spoil, fail = true, -1
	_, err = other.place(&tree, nil, fetch)
	require.ErrorContains(t, err, "is not what the hub lists")
	spoil = false
	_, err = other.place(&tree, nil, fetch)
	require.NoError(t, err)

	// A place of one's own with the same bytes is used as it is, one with others is not.
	place, err = other.place(&tree, []string{filepath.Join(dir, "codec"), dir}, nil)
	require.NoError(t, err)
	require.Equal(t, dir, place)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("[]"), 0o666))
	require.False(t, tree.matches(dir))
}

// Where another worker of the machine has linked a file in the meantime, a copy replaces the link
// and leaves the file that it leads to.
func TestCopyOverALink(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "blob"), filepath.Join(dir, "model.safetensors")
	require.NoError(t, os.WriteFile(from, []byte("weights"), 0o666))
	require.NoError(t, os.Link(from, to))
	require.NoError(t, copyFile(from, to))
	for _, name := range []string{from, to} {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, "weights", string(data), name)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

// A hub cannot make a worker write elsewhere.
func TestTreeNames(t *testing.T) {
	tree, _ := someTree(t)
	for _, bad := range []func(t *Tree){
		func(t *Tree) { t.Base = ".." }, func(t *Tree) { t.Base = "a/b" },
		func(t *Tree) { t.Files[0].Path = "../x" }, func(t *Tree) { t.Files[0].Path = "/x" },
		func(t *Tree) { t.Files[0].SHA256 = "../../x" }, func(t *Tree) { t.Dir = false },
		func(t *Tree) { t.Files[0].Size = -1 },
	} {
		c := tree
		c.Files = append([]File(nil), tree.Files...)
		bad(&c)
		_, err := cache{t.TempDir()}.place(&c, nil, nil)
		require.Error(t, err)
	}
}
