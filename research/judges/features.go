package judges

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"unmask/images"
	"unmask/research/metrics"
)

// MakeFeatures computes the features of pictures first to first+count-1, whose files read returns,
// and passes them to put in the form of PackFeatures.
func MakeFeatures(ctx context.Context, x metrics.Extractor,
	read func(ctx context.Context, i int) ([]byte, error), first, count int,
	put func(i int, row []byte) error) error {
	for i := first; i < first+count; i++ {
		data, err := read(ctx, i)
		if err != nil {
			return err
		}
		picture, err := images.Decode(data)
		if err != nil {
			return fmt.Errorf("picture %d: %w", i, err)
		}
		if err := x.Features(ctx, []*images.Image{picture}, func(_ int, features,
			logits []float32) error {
			return put(i, PackFeatures(features, logits))
		}); err != nil {
			return err
		}
	}
	return nil
}

// PackFeatures returns a picture's features and logits, which may be nil, as bytes: the number of
// features in 4 bytes, then all values as float32, little-endian.
func PackFeatures(features, logits []float32) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(features)))
	for _, list := range [][]float32{features, logits} {
		for _, v := range list {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	}
	return out
}

// UnpackFeatures returns the inverse of PackFeatures.
func UnpackFeatures(row []byte) (features, logits []float32, err error) {
	if len(row) < 4 || len(row)%4 != 0 {
		return nil, nil, fmt.Errorf("features are %d bytes, want a multiple of 4", len(row))
	}
	n := uint64(binary.LittleEndian.Uint32(row))
	all := make([]float32, len(row)/4-1)
	for i := range all {
		all[i] = math.Float32frombits(binary.LittleEndian.Uint32(row[4*(i+1):]))
	}
	if n > uint64(len(all)) {
		return nil, nil, fmt.Errorf("features are %d values, want %d", len(all), n)
	}
	if features = all[:n]; int(n) < len(all) {
		logits = all[n:]
	}
	return features, logits, nil
}

// ReadFeatures passes the rows that MakeFeatures made for n pictures to visit, in order.
func ReadFeatures(n int, read func(i int) ([]byte, error), visit Visit) error {
	for i := range n {
		row, err := read(i)
		if err != nil {
			return err
		}
		features, logits, err := UnpackFeatures(row)
		if err != nil {
			return fmt.Errorf("picture %d: %w", i, err)
		}
		if err := visit(i, features, logits); err != nil {
			return err
		}
	}
	return nil
}

// Names returns a hash of files' names, sizes and times, which changes if the files do.
func Names(files []string) string {
	h := sha256.New()
	for _, name := range files {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintln(h, filepath.Base(name), info.Size(), info.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
