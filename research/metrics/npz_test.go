package metrics_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"unmask/research/metrics"
)

func example() metrics.Gaussian {
	return gaussian([]float64{0.5, -1.25, 3}, 2, 0.5, -0.25, 0.5, 3, 0.125, -0.25, 0.125, 1.5)
}

// Files written by numpy.savez and savez_compressed, also with float32 in Fortran order.
func TestStatsOfNumpy(t *testing.T) {
	for _, name := range []string{"numpy.npz", "numpy_compressed_f32_fortran.npz"} {
		got, err := metrics.LoadStats(filepath.Join("testdata", name))
		require.NoError(t, err)
		requireSame(t, example(), got)
	}
}

func TestStatsRoundTrip(t *testing.T) {
	name := filepath.Join(t.TempDir(), "reference.npz")
	g := moments(t, normal(9, 100, 40, 3))
	require.NoError(t, metrics.SaveStats(name, g))
	got, err := metrics.LoadStats(name)
	require.NoError(t, err)
	requireSame(t, g, got)
	require.NoError(t, metrics.SaveStats(name, example())) // over the old one
	files, err := os.ReadDir(filepath.Dir(name))
	require.NoError(t, err)
	require.Len(t, files, 1)
	var again bytes.Buffer
	require.NoError(t, metrics.WriteStats(&again, example()))
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, data, again.Bytes())
	require.Error(t, metrics.SaveStats(filepath.Join(filepath.Dir(name), "missing", "x.npz"),
		example()))
	require.Error(t, metrics.SaveStats(name, metrics.Gaussian{}))
	_, err = metrics.LoadStats(filepath.Dir(name))
	require.ErrorContains(t, err, "is a directory, want a file")
}

func requireSame(t testing.TB, want, got metrics.Gaussian) {
	require.Equal(t, want.Mean, got.Mean)
	require.True(t, mat.Equal(want.Covariance, got.Covariance))
}

// npy returns an array file of version 1.0 with n values.
func npy(header string, values ...float64) []byte {
	b := []byte("\x93NUMPY\x01\x00")
	b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	b = append(b, header...)
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func archive(t testing.TB, entries ...any) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(entries); i += 2 {
		f, err := z.Create(entries[i].(string))
		require.NoError(t, err)
		_, err = f.Write(entries[i+1].([]byte))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

const (
	vector2 = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n"
	matrix2 = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }\n"
)

// badStats returns files that must be refused, by reason.
func badStats(t testing.TB) map[string][]byte {
	mu, sigma := npy(vector2, 1, 2), npy(matrix2, 1, 0, 0, 1)
	with := func(mu, sigma []byte) []byte { return archive(t, "mu.npy", mu, "sigma.npy", sigma) }
	header := func(h string, values ...float64) []byte { return with(npy(h, values...), sigma) }
	whole := with(mu, sigma)
	var stored bytes.Buffer
	require.NoError(t, metrics.WriteStats(&stored, example()))
	flipped := stored.Bytes()
	flipped[bytes.IndexByte(flipped, '\n')+1] ^= 1 // the first byte of mu
	return map[string][]byte{
		"not an .npz archive":        []byte("nonsense"),
		"sigma.npy is missing":       archive(t, "mu.npy", mu),
		"mu.npy is missing":          archive(t, "sigma.npy", sigma),
		"mu.npy: not numpy's format": with([]byte("text"), sigma),
		"mu.npy: version 9 of numpy's format": with([]byte(
			"\x93NUMPY\x09\x00\x00\x00\x00\x00"), sigma),
		"mu.npy: a header of 65535 bytes": with([]byte(
			"\x93NUMPY\x01\x00\xff\xff    "), sigma),
		"mu.npy: header is \"{'descr': \", want <f8": header("{'descr': "),
		"mu.npy: header is \"{'descr': '|O'": header("{'descr': '|O', 'fortran_order': "+
			"False, 'shape': (2,)}", 1, 2),
		"mu.npy: header is \"{'descr': '<f8', 'fortran_order': False}": header(
			"{'descr': '<f8', 'fortran_order': False}", 1, 2),
		"'shape': (2,,)}\", want <f8": header("{'descr': '<f8', 'fortran_order': "+
			"False, 'shape': (2,,)}", 1, 2),
		"'shape': ()}\", want <f8": header("{'descr': '<f8', 'fortran_order': "+
			"False, 'shape': ()}", 1),
		"mu.npy: 'shape': (0,), want 1 to 4096": header("{'descr': '<f8', 'fortran_order': " +
			"False, 'shape': (0,)}"),
		"mu.npy: 'shape': (4097,), want 1 to 4096": header("{'descr': '<f8', 'fortran_order': " +
			"False, 'shape': (4097,)}"),
		"(9223372036854775808,), want 1": header("{'descr': '<f8', 'fortran_order': " +
			"False, 'shape': (9223372036854775808,)}"),
		"8 bytes, 'shape': (4096,) of <f8 takes 32768": header("{'descr': '<f8', 'fortran_order': "+
			"False, 'shape': (4096,)}", 1),
		"24 bytes, 'shape': (2,) of <f8 takes 16": header(vector2, 1, 2, 3),
		"mu.npy: element 1 is NaN":                header(vector2, 1, math.NaN()),
		"sigma.npy: element 3 is +Inf":            with(mu, npy(matrix2, 1, 0, 0, math.Inf(1))),
		"a shape of 2 dimensions":                 with(mu, mu),
		"sigma has 2 rows, want 3 as mu": with(npy(strings.Replace(vector2, "2", "3", 1),
			1, 2, 3), sigma),
		"sigma.npy: 'shape': (2, 3), want 1 to 4096, and as many rows as columns": with(mu,
			npy(strings.Replace(matrix2, "2, 2", "2, 3", 1), 1, 2, 3, 4, 5, 6)),
		"sigma is not symmetric: 2 at [0, 1], 3 across": with(mu, npy(matrix2, 1, 2, 3, 1)),
		"sigma has -1 at [1, 1], want variances":        with(mu, npy(matrix2, 1, 0, 0, -1)),
		"not an .npz archive: zip":                      whole[:len(whole)-30],
		"mu.npy: zip: checksum error":                   flipped,
	}
}

func TestBadStats(t *testing.T) {
	for want, data := range badStats(t) {
		t.Run(want, func(t *testing.T) {
			_, err := metrics.ReadStats(bytes.NewReader(data), int64(len(data)))
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// Of two arrays of a name the last one counts, as in numpy.
func TestStatsTwice(t *testing.T) {
	sigma := npy(matrix2, 1, 0, 0, 1)
	data := archive(t, "mu.npy", npy(vector2, 1, 2), "sigma.npy", sigma, "mu.npy", npy(vector2, 3, 4))
	g, err := metrics.ReadStats(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, []float64{3, 4}, g.Mean)
}

// An archive that claims gigabytes is refused, and takes no more memory than it fills.
func TestStatsBomb(t *testing.T) {
	data := archive(t, "mu.npy", npy(vector2, 1, 2), "sigma.npy", npy(matrix2, 1, 0, 0, 1))
	at := bytes.LastIndex(data, []byte("PK\x01\x02")) // the directory's entry of sigma.npy
	binary.LittleEndian.PutUint32(data[at+24:], 1<<31)
	var stats [2]runtime.MemStats
	runtime.ReadMemStats(&stats[0])
	_, err := metrics.ReadStats(bytes.NewReader(data), int64(len(data)))
	runtime.ReadMemStats(&stats[1])
	require.Error(t, err)
	require.Less(t, stats[1].TotalAlloc-stats[0].TotalAlloc, uint64(1<<22))
}

func FuzzReadStats(f *testing.F) {
	var good bytes.Buffer
	require.NoError(f, metrics.WriteStats(&good, example()))
	f.Add(good.Bytes())
	for _, data := range badStats(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := metrics.ReadStats(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		var again bytes.Buffer
		require.NoError(t, metrics.WriteStats(&again, g))
		same, err := metrics.ReadStats(bytes.NewReader(again.Bytes()), int64(again.Len()))
		require.NoError(t, err)
		requireSame(t, g, same)
	})
}
