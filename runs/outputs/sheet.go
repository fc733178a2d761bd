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

// Close ends the output of a run that returned ran, and returns the names of what was written:
// folder, contact sheet, film. After ErrStopped the latter two appear under other names, see
// atomicfile.PartialName; after other errors they are not written.
func (p *Pictures) Close(ran error) (written []string, err error) {
	if p.folder != nil {
		err = p.folder.Close()
	}
	stopped := errors.Is(ran, ErrStopped)
	if err != nil || ran != nil && !stopped {
		return nil, err
	}
	if p.o.Dir != "" {
		written = append(written, p.o.Dir)
	}
	for _, file := range []struct {
		name   string
		encode func() ([]byte, error)
	}{{p.o.Sheet, p.drawSheet}, {p.o.Film, p.drawFilm}} {
		if file.name == "" {
			continue
		}
		if stopped {
			file.name = atomicfile.PartialName(file.name)
		}
		data, err := file.encode()
		if err == nil {
			err = atomicfile.WriteFile(file.name, func(w io.Writer) error {
				_, err := w.Write(data)
				return err
			})
		}
		if err != nil {
			return written, atomicfile.WithPath(file.name, err)
		}
		written = append(written, file.name)
	}
	return written, nil
}

// drawSheet draws the contact sheet; for a folder, its first pictures that exist.
func (p *Pictures) drawSheet() ([]byte, error) {
	sheet := p.sheet
	if p.folder != nil {
		n := min(p.j.Run.N, MaxSheet, p.folder.Done())
		sheet = images.NewSheet(n, p.size)
		for i := range n {
			picture, err := images.Read(filepath.Join(p.o.Dir, p.folder.Name(p.folder.First()+i)))
			if err != nil {
				return nil, err
			}
			sheet.Put(i, picture.NRGBA())
		}
	}
	var data bytes.Buffer
	if p.o.Bare {
		at := sheet.Corner(0)
		err := png.Encode(&data, sheet.Canvas.SubImage(image.Rectangle{Min: at, Max: at.Add(sheet.Size)}))
		return data.Bytes(), err
	}
	err := png.Encode(&data, images.Enlarge(sheet.Canvas, p.scale()))
	return data.Bytes(), err
}

func (p *Pictures) drawFilm() ([]byte, error) {
	p.film.Scale = p.scale()
	return p.film.Encode(p.j.Model.Pictures, func(i int) *model.Condition {
		return p.j.Requests.Prepared(i).Condition
	})
}
