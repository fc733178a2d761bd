package outputs

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"io"
	"path/filepath"

	"unmask/internal/atomicfile"
	"unmask/media/images"
	"unmask/model"
)

// Close ends the output of a run that returned runErr, and returns the names of what was written:
// folder, contact sheet, film. After ErrStopped the latter two appear under other names, see
// atomicfile.PartialName; after other errors they are not written.
func (p *Pictures) Close(runErr error) (written []string, err error) {
	if p.folder != nil {
		err = p.folder.Close()
	}
	isStopped := errors.Is(runErr, ErrStopped)
	if err != nil || runErr != nil && !isStopped {
		return nil, err
	}
	if p.o.Dir != "" {
		written = append(written, p.o.Dir)
	}
	for _, file := range []struct {
		name string
		draw func() ([]byte, error)
	}{
		{p.o.Sheet, p.drawSheet},
		{p.o.Film, p.drawFilm},
	} {
		name := file.name
		if name == "" {
			continue
		}
		if isStopped {
			name = atomicfile.PartialName(name)
		}
		if err := writeDrawing(name, file.draw); err != nil {
			return written, atomicfile.WithPath(name, err)
		}
		written = append(written, name)
	}
	return written, nil
}

// writeDrawing writes what draw returns to a file.
func writeDrawing(name string, draw func() ([]byte, error)) error {
	data, err := draw()
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// drawSheet returns the PNG of the contact sheet; for a folder, of its first pictures that exist.
func (p *Pictures) drawSheet() ([]byte, error) {
	sheet := p.sheet
	if p.folder != nil {
		n := min(p.job.Run.N, MaxSheet, p.folder.Done())
		sheet = images.NewSheet(n, p.size)
		for i := range n {
			name := p.folder.Name(p.folder.First() + i)
			picture, err := images.Read(filepath.Join(p.o.Dir, name))
			if err != nil {
				return nil, err
			}
			sheet.Put(i, picture.NRGBA())
		}
	}

	var data bytes.Buffer
	if p.o.Bare {
		corner := sheet.Corner(0)
		area := image.Rectangle{Min: corner, Max: corner.Add(sheet.Size)}
		err := png.Encode(&data, sheet.Canvas.SubImage(area))
		return data.Bytes(), err
	}
	err := png.Encode(&data, images.Enlarge(sheet.Canvas, p.scale()))
	return data.Bytes(), err
}

// drawFilm returns the GIF of the film.
func (p *Pictures) drawFilm() ([]byte, error) {
	p.film.Scale = p.scale()
	return p.film.Encode(p.job.Model.Pictures, func(i int) *model.Condition {
		return p.job.Requests.Prepared(i).Condition
	})
}
