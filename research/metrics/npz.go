package metrics

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"unmask/internal/atomicfile"
	"unmask/param"
)

// Reference statistics are stored as by pytorch-fid and others: numpy's .npz, a zip archive of
// mu.npy, float64 or float32 [width], and sigma.npy [width, width]. Other arrays are ignored.

// MaxWidth is the largest feature width in a statistics file. Inception's is 2048.
const MaxWidth = 4096

// npyMagic begins an .npy file.
const npyMagic = "\x93NUMPY"

// maxArray is the largest .npy file in bytes: a header, and a matrix.
const maxArray = 1<<16 + 8*MaxWidth*MaxWidth

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
		row         func(dst []float64, i int)
	}{
		{"mu.npy", fmt.Sprintf("(%d,)", width), 1, func(dst []float64, _ int) { copy(dst, g.Mean) }},
		{"sigma.npy", fmt.Sprintf("(%d, %d)", width, width), width,
			func(dst []float64, i int) { mat.Row(dst, i, g.Covariance) }},
	} {
		f, err := z.CreateHeader(&zip.FileHeader{Name: a.name, Method: zip.Store})
		if err != nil {
			return err
		}
		if _, err := f.Write(arrayHeader(a.shape)); err != nil {
			return err
		}
		row := make([]float64, width)
		for i := range a.rows {
			a.row(row, i)
			if err := binary.Write(f, binary.LittleEndian, row); err != nil {
				return err
			}
		}
	}
	return z.Close()
}

// arrayHeader returns a header in version 1.0 of numpy's format: magic, version, length, and a
// Python dictionary padded so that the data starts at a multiple of 64.
func arrayHeader(shape string) []byte {
	dict := fmt.Sprintf("{'descr': '<f8', 'fortran_order': False, 'shape': %s, }", shape)
	padding := -(len(npyMagic) + 4 + len(dict) + 1) & 63
	h := binary.LittleEndian.AppendUint16([]byte(npyMagic+"\x01\x00"), uint16(len(dict)+padding+1))
	h = append(append(h, dict...), bytes.Repeat([]byte{' '}, padding)...)
	return append(h, '\n')
}

// SaveStats writes a file, whole or not at all.
func SaveStats(name string, g Gaussian) error {
	err := atomicfile.WriteFile(name, func(w io.Writer) error { return WriteStats(w, g) })
	return atomicfile.WithPath(name, err)
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
	return g, param.AtPlace(name, err)
}

// ReadStats reads an .npz archive of `size` bytes. It allocates no more memory than the archive
// fills.
func ReadStats(r io.ReaderAt, size int64) (Gaussian, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return Gaussian{}, fmt.Errorf("not an .npz archive: %w", err)
	}
	mean, width, err := readArray(z, "mu.npy", 1)
	if err != nil {
		return Gaussian{}, err
	}
	sigma, side, err := readArray(z, "sigma.npy", 2)
	if err != nil {
		return Gaussian{}, err
	}
	if side != width {
		return Gaussian{}, fmt.Errorf("sigma has %d rows, want %d as mu", side, width)
	}
	largest := slices.Max(sigma)
	c := mat.NewSymDense(width, nil)
	for i := range width {
		for j := i; j < width; j++ {
			a := sigma[i*width+j]
			b := sigma[j*width+i]
			if math.Abs(a-b) > 1e-6*largest {
				return Gaussian{}, fmt.Errorf("sigma is not symmetric: %v at [%d, %d], %v across", a, i, j, b)
			}
			c.SetSym(i, j, a/2+b/2)
		}
		if v := c.At(i, i); v < 0 {
			return Gaussian{}, fmt.Errorf("sigma has %v at [%d, %d], want variances from 0", v, i, i)
		}
	}
	return Gaussian{Mean: mean, Covariance: c}, nil
}

// readArray reads an array of the archive: a vector, or a square matrix.
func readArray(z *zip.Reader, name string, dims int) (values []float64, width int, err error) {
	var entry *zip.File // the last one of the name, as numpy takes it
	for _, f := range z.File {
		if f.Name == name {
			entry = f
		}
	}
	if entry == nil {
		return nil, 0, fmt.Errorf("%s is missing, want mu.npy and sigma.npy", name)
	}
	f, err := entry.Open()
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxArray))
	if err == nil {
		values, width, err = parseArray(data, dims)
	}
	return values, width, param.AtPlace(name, err)
}

// The entries of a header's dictionary that are read, in any order. The memory order is not: a
// vector and a symmetric matrix have none.
var (
	descrEntry = regexp.MustCompile(`'descr': '<f([48])'`)
	shapeEntry = regexp.MustCompile(`'shape': \((\d+),(?: (\d+))?\)`)
)

// parseArray reads numpy's format (numpy.lib.format, versions 1.0 to 3.0).
func parseArray(data []byte, dims int) (values []float64, width int, err error) {
	if len(data) < 12 || string(data[:6]) != npyMagic {
		return nil, 0, errors.New("not numpy's format")
	}
	start := 12
	n := int(binary.LittleEndian.Uint32(data[8:]))
	switch v := data[6]; {
	case v < 1 || v > 3:
		return nil, 0, fmt.Errorf("version %d of numpy's format, want 1 to 3", v)
	case v == 1:
		start = 10
		n = int(binary.LittleEndian.Uint16(data[8:]))
	}
	if n < 0 || n > len(data)-start {
		return nil, 0, fmt.Errorf("a header of %d bytes, want at most %d", n, len(data)-start)
	}
	header := data[start : start+n]
	body := data[start+n:]
	descr := descrEntry.FindSubmatch(header)
	shape := shapeEntry.FindSubmatch(header)
	if descr == nil || shape == nil || (dims == 2) != (len(shape[2]) > 0) {
		return nil, 0, fmt.Errorf("header is %.200q, want <f8 or <f4 and a shape of %d dimensions",
			header,
			dims)
	}
	count := 1
	for _, text := range shape[1 : 1+dims] {
		width, err = strconv.Atoi(string(text))
		if err != nil || width < 1 || width > MaxWidth || dims == 2 && string(text) != string(shape[1]) {
			return nil, 0, fmt.Errorf("%s, want 1 to %d, and as many rows as columns", shape[0], MaxWidth)
		}
		count *= width
	}
	size := int(descr[1][0] - '0')
	if len(body) != count*size {
		return nil, 0, fmt.Errorf("%d bytes, %s of <f%d takes %d", len(body), shape[0], size, count*size)
	}
	values = make([]float64, count)
	for i := range values {
		if size == 8 {
			values[i] = math.Float64frombits(binary.LittleEndian.Uint64(body[8*i:]))
		} else {
			values[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(body[4*i:])))
		}
		if v := values[i]; v-v != 0 {
			return nil, 0, fmt.Errorf("element %d is %v, want a finite number", i, v)
		}
	}
	return values, width, nil
}
