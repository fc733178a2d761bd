package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// entry is a file of an archive.
type entry struct {
	// name has slashes, below the archive's one folder.
	name string

	// path is the file with the content; if it is "", the content is data.
	path string
	data []byte

	// isProgram says that it may be run.
	isProgram bool
}

// open returns the content and its size in bytes.
func (e *entry) open() (io.ReadCloser, int64, error) {
	if e.path == "" {
		return io.NopCloser(bytes.NewReader(e.data)), int64(len(e.data)), nil
	}
	file, err := os.Open(e.path)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// mode returns the permissions that the file gets where it is unpacked.
func (e *entry) mode() os.FileMode {
	if e.isProgram {
		return 0o755
	}
	return 0o644
}

// writeArchive writes base.zip for Windows and base.tar.gz for others. Names are sorted, and times
// are the given one, so that the bytes depend on the files alone.
func writeArchive(base string, t target, entries []entry, modified time.Time) error {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	folder := filepath.Base(base)
	name := base + ".tar.gz"
	write := writeTar
	if t.OS == "windows" {
		name = base + ".zip"
		write = writeZip
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(file, folder, entries, modified); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// writeTar writes a compressed tar archive with one folder.
func writeTar(out io.Writer, folder string, entries []entry, modified time.Time) error {
	compressor, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressor)
	for _, e := range entries {
		content, size, err := e.open()
		if err != nil {
			return err
		}
		header := &tar.Header{Name: path.Join(folder, e.name), Size: size, Mode: int64(e.mode()),
			ModTime: modified, Format: tar.FormatPAX}
		err = archive.WriteHeader(header)
		if err == nil {
			_, err = io.Copy(archive, content)
		}
		content.Close()
		if err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressor.Close()
}

// writeZip writes a zip archive with one folder.
func writeZip(out io.Writer, folder string, entries []entry, modified time.Time) error {
	archive := zip.NewWriter(out)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, e := range entries {
		content, _, err := e.open()
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: path.Join(folder, e.name), Method: zip.Deflate,
			Modified: modified}
		header.SetMode(e.mode())
		file, err := archive.CreateHeader(header)
		if err == nil {
			_, err = io.Copy(file, content)
		}
		content.Close()
		if err != nil {
			return err
		}
	}
	return archive.Close()
}
