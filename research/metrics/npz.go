package metrics

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"gonum.org/v1/gonum/mat"

	"unmask/internal/atomicfile"
)

// Reference statistics are stored as by pytorch-fid and others: numpy's .npz, a zip archive of
// mu.npy, float64 or float32 [width], and sigma.npy [width, width]. Other arrays are ignored.

// MaxWidth is the largest feature width in a statistics file. Inception's is 2048.
const MaxWidth = 8192

// maxInflation is a little more than deflate's largest compression ratio, 1032.
const maxInflation = 1100

// WriteStats writes a Gaussian as an .npz archive that numpy reads. Equal Gaussians give equal
// bytes.
func WriteStats(w io.Writer, g Gaussian) error {
	width := len(g.Mean)
	if width < 1 || width > MaxWidth || g.Covariance.SymmetricDim() != width {
		return fmt.Errorf("statistics of width %d, want 1 to %d", width, MaxWidth)
	}
	z := zip.NewWriter(w)
	for _, a := range []struct {
		name, shape string
		rows        int
		at          func(i, j int) float64
	}{
		{"mu.npy", fmt.Sprintf("(%d,)", width), 1, func(_, j int) float64 { return g.Mean[j] }},
		{"sigma.npy", fmt.Sprintf("(%d, %d)", width, width), width, g.Covariance.At},
	} {
		f, err := z.CreateHeader(&zip.FileHeader{Name: a.name, Method: zip.Store})
		if err != nil {
			return err
		}
		if _, err := f.Write(arrayHeader(a.shape)); err != nil {
			return err
		}
		row := make([]byte, 8*width)
		for i := range a.rows {
			for j := range width {
				binary.LittleEndian.PutUint64(row[8*j:], math.Float64bits(a.at(i, j)))
			}
			if _, err := f.Write(row); err != nil {
				return err
			}
		}
	}
	return z.Close()
}

// SaveStats writes a file, whole or not at all.
func SaveStats(name string, g Gaussian) error {
	err := atomicfile.WriteFile(name, func(w io.Writer) error { return WriteStats(w, g) })
	return atomicfile.Named(name, err)
}

// LoadStats reads the statistics file at name.
func LoadStats(name string) (Gaussian, error) {
	f, err := atomicfile.Open(name)
	if err != nil {
		return Gaussian{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Gaussian{}, err
	}
	g, err := ReadStats(f, info.Size())
	if err != nil {
		return Gaussian{}, fmt.Errorf("%s: %w", name, err)
	}
	return g, nil
}

// ReadStats reads an .npz archive of `size` bytes. It allocates no more memory than the archive can
// really fill.
func ReadStats(r io.ReaderAt, size int64) (Gaussian, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return Gaussian{}, fmt.Errorf("not an .npz archive: %w", err)
	}
	mean, shape, err := readArray(z, size, "mu", 1)
	if err != nil {
		return Gaussian{}, err
	}
	sigma, sigmaShape, err := readArray(z, size, "sigma", 2)
	if err != nil {
		return Gaussian{}, err
	}
	width := shape[0]
	if sigmaShape[0] != width || sigmaShape[1] != width {
		return Gaussian{}, fmt.Errorf("sigma has shape %v, want [%d %d], mu's", sigmaShape, width, width)
	}
	var most float64
	for _, v := range sigma {
		most = max(most, math.Abs(v))
	}
	c := mat.NewSymDense(width, nil)
	for i := range width {
		for j := i; j < width; j++ {
			a, b := sigma[i*width+j], sigma[j*width+i]
			if math.Abs(a-b) > 1e-6*most {
				return Gaussian{}, fmt.Errorf("sigma is not symmetric: %v at [%d, %d], %v across", a, i, j, b)
			}
			c.SetSym(i, j, a/2+b/2)
		}
		if c.At(i, i) < 0 {
			return Gaussian{}, fmt.Errorf("sigma has %v at [%d, %d], want variances from 0", c.At(i, i), i,
				i)
		}
	}
	return Gaussian{Mean: mean, Covariance: c}, nil
}

// readArray reads one array of the archive and converts float32 to float64.
func readArray(z *zip.Reader, size int64, name string, dims int) (values []float64, shape []int,
	err error) {
	var entry *zip.File
	for _, f := range z.File {
		if f.Name != name+".npy" {
			continue
		}
		if entry != nil {
			return nil, nil, fmt.Errorf("%s.npy is there twice", name)
		}
		entry = f
	}
	if entry == nil {
		return nil, nil, fmt.Errorf("%s.npy is missing, want mu.npy and sigma.npy", name)
	}
	if values, shape, err = readEntry(entry, size, dims); err != nil {
		return nil, nil, fmt.Errorf("%s.npy: %w", name, err)
	}
	return values, shape, nil
}

func readEntry(entry *zip.File, size int64, dims int) (values []float64, shape []int, err error) {
	if entry.Flags&1 != 0 {
		return nil, nil, errors.New("encrypted")
	}
	if entry.UncompressedSize64/maxInflation > uint64(size) {
		return nil, nil, fmt.Errorf("%d bytes cannot be in an archive of %d", entry.UncompressedSize64,
			size)
	}
	f, err := entry.Open()
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	a, err := readArrayHeader(f)
	if err != nil {
		return nil, nil, err
	}
	if len(a.shape) != dims {
		return nil, nil, fmt.Errorf("shape is %v, want %d dimensions", a.shape, dims)
	}
	n := 1
	for _, d := range a.shape {
		if d < 1 || d > MaxWidth {
			return nil, nil, fmt.Errorf("shape is %v, want 1 to %d", a.shape, MaxWidth)
		}
		n *= d
	}
	if want := uint64(a.headerSize) + uint64(n*a.size); entry.UncompressedSize64 != want {
		return nil, nil, fmt.Errorf("%d bytes, shape %v of %s takes %d", entry.UncompressedSize64,
			a.shape, a.descr, want)
	}
	values = make([]float64, n)
	row := make([]byte, a.shape[dims-1]*a.size)
	for i := 0; i < n; i += a.shape[dims-1] {
		if _, err := io.ReadFull(f, row); err != nil {
			return nil, nil, err
		}
		for j := range a.shape[dims-1] {
			var v float64
			if a.size == 8 {
				v = math.Float64frombits(binary.LittleEndian.Uint64(row[8*j:]))
			} else {
				v = float64(math.Float32frombits(binary.LittleEndian.Uint32(row[4*j:])))
			}
			if v-v != 0 {
				return nil, nil, fmt.Errorf("element %d is %v, want a finite number", i+j, v)
			}
			values[i+j] = v
		}
	}
	if _, err := io.Copy(io.Discard, f); err != nil { // read to the end, where the checksum is
		return nil, nil, err
	}
	return values, a.shape, nil
}

const magic = "\x93NUMPY"

// arrayHeader returns a header in version 1.0 of numpy's format: magic, version, length, and a
// Python dictionary padded so that the data starts at a multiple of 64.
func arrayHeader(shape string) []byte {
	dict := fmt.Sprintf("{'descr': '<f8', 'fortran_order': False, 'shape': %s, }", shape)
	before := len(magic) + 4
	padding := -(before + len(dict) + 1) & 63
	h := bytes.NewBufferString(magic + "\x01\x00")
	binary.Write(h, binary.LittleEndian, uint16(len(dict)+padding+1))
	h.WriteString(dict)
	h.Write(bytes.Repeat([]byte{' '}, padding))
	h.WriteByte('\n')
	return h.Bytes()
}
