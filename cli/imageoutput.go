package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"path/filepath"
	"time"

	"unmask"
	"unmask/generate"
	"unmask/images"
	"unmask/runs"
	"unmask/terminal"
	"unmask/traces"
)

// sheetImages bounds a contact sheet, so that memory does not grow with -n.
const sheetImages = 64

// imageRecord is one line of --json.
type imageRecord struct {
	ID         int             `json:"id"`
	Seed       uint64          `json:"seed"`
	IDs        []int32         `json:"ids"` // codes by rows
	OpenedAt   []int           `json:"opened_at"`
	LogProbs   traces.LogProbs `json:"logprobs"`
	Steps      int             `json:"steps"`
	Seconds    float64         `json:"seconds"` // since the batch's start
	Evaluated  evaluated       `json:"evaluated"`
	File       string          `json:"file,omitempty"`
	Unfinished bool            `json:"unfinished,omitempty"`
	Class      string          `json:"class,omitempty"` // as it was asked for
	Prompt     string          `json:"prompt,omitempty"`
}

// imageOutput decodes images and puts them where they go.
type imageOutput struct {
	f       *imageFlags
	m       *unmask.Model
	size    image.Point
	mask    int32
	folder  *runs.Folder  // nil without --out
	pending map[int]bool  // of the folder
	sheet   *images.Sheet // nil with --out: it is drawn from the files
	film    *unmask.Film  // nil without --gif
	made    int
	began   time.Time
}

func openImageOutput(f *imageFlags, m *unmask.Model, o generate.Options) (*imageOutput, error) {
	width, height, err := m.Pictures.Size()
	if err != nil {
		return nil, err
	}
	out := &imageOutput{f: f, m: m, size: image.Pt(width, height), mask: m.Spec().Mask,
		began: time.Now()}
	if f.gif != "" {
		out.film = unmask.NewFilm(f.n, m.Spec(), o.Tokens)
	}
	if f.out == "" {
		out.sheet = images.NewSheet(f.n, out.size)
		return out, nil
	}
	s, err := f.runSettings(m, o)
	if err != nil {
		return nil, err
	}
	if f.paste {
		s["paste"] = f.pasted()
	}
	f.conditionSettings(s)
	if out.folder, err = runs.OpenFolder(filepath.Clean(f.out), ".png", s); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	out.pending = map[int]bool{}
	for _, i := range out.folder.Pending(f.n) {
		out.pending[i] = true
	}
	for _, fault := range out.folder.Faults() {
		terminal.Say("%s: made again", fault)
	}
	if done := f.n - len(out.pending); done > 0 {
		terminal.Say("%d of %d images are there", done, f.n)
	}
	return out, nil
}

// pasted is a hash of what --paste puts back, and where.
func (f *imageFlags) pasted() string {
	hash := sha256.New()
	for _, p := range []image.Image{f.given, f.hole} {
		hash.Write(p.(*image.NRGBA).Pix)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// runs are the images that are still to be made, as contiguous runs in the order in which the
// folder wants them. Those that a film needs and the folder has come first.
func (out *imageOutput) runs(o generate.Options) []generate.Options {
	if out.folder == nil {
		return []generate.Options{o}
	}
	filmed := make([]int, out.film.Len())
	for i := range filmed {
		filmed[i] = i
	}
	return out.folder.Runs(o, filmed)
}

// put decodes a batch and writes it, in order.
func (out *imageOutput) put(batch []codedImage) error {
	for _, p := range batch {
		if out.folder != nil && !out.pending[p.index] {
			continue
		}
		codes, masked, err := out.m.Pictures.Fill(p.codes, out.mask)
		if err != nil {
			return err
		}
		img, err := out.m.Pictures.ImageOf(codes, out.f.condition(p.index))
		if err != nil {
			return fmt.Errorf("image %d: %w", p.index, err)
		}
		if out.f.paste {
			if err := out.m.Paste(img, out.f.given, out.f.hole); err != nil {
				return fmt.Errorf("--paste: %w", err)
			}
		}
		name := ""
		if out.folder != nil {
			var data bytes.Buffer
			if err := png.Encode(&data, img); err != nil {
				return err
			}
			if err := out.folder.Put(p.index, out.f.seed,
				out.f.labelled(p.index, data.Bytes())); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			name = filepath.Join(out.f.out, out.folder.Name(p.index))
		} else {
			out.sheet.Put(p.index, img)
			hidden, err := out.m.Pictures.Cells(masked)
			if err != nil {
				return err
			}
			out.sheet.Check(p.index, hidden)
		}
		if len(masked) == 0 {
			out.made++
		}
		if out.f.json {
			if err := out.line(p, name, len(masked) > 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (out *imageOutput) line(p codedImage, name string, unfinished bool) error {
	class, prompt := out.f.wanted(p.index)
	line, err := json.Marshal(imageRecord{Class: class, Prompt: prompt, ID: p.index, Seed: out.f.seed,
		IDs: p.codes, OpenedAt: p.opening.Steps, LogProbs: p.opening.LogP, Steps: p.steps,
		Seconds: p.seconds, File: name, Unfinished: unfinished,
		Evaluated: evaluated{FullPasses: p.evaluated.Full, PartialRows: p.evaluated.Partial,
			HeadRows: p.evaluated.Head}})
	if err != nil {
		return err
	}
	return printLine(string(line))
}

// interrupted delivers what the batch has: to a folder the finished images before the first
// unfinished one, to a sheet all.
func (out *imageOutput) interrupted(step *generate.Step, batch []codedImage,
	openings *traces.Openings, deliver func([]codedImage) error) error {
	terminal.Say("interrupted after step %d of %d", step.N, step.Steps)
	if step.Done {
		return errInterrupted
	}
	for i := range step.Sequences {
		if batch[i].codes != nil {
			continue
		}
		if out.folder != nil {
			batch = batch[:i]
			break
		}
		batch[i] = newCodedImage(step, &step.Sequences[i], 0, openings)
	}
	if err := deliver(batch); err != nil {
		return err
	}
	return errInterrupted
}

// close writes the sheet and the film, also of a run that was interrupted, and says where all is.
func (out *imageOutput) close(ran error) error {
	var err error
	if out.folder != nil {
		err = out.folder.Close()
	}
	if err != nil || ran != nil && !errors.Is(ran, errInterrupted) {
		return err
	}
	interrupted := errors.Is(ran, errInterrupted)
	var written []string
	if out.f.out != "" {
		written = append(written, out.f.out)
	}
	for _, file := range []struct {
		flag, name string
		encode     func() ([]byte, error)
	}{{"--sheet", out.f.sheet, out.drawSheet}, {"--gif", out.f.gif, out.drawFilm}} {
		if file.name == "" {
			continue
		}
		if interrupted {
			file.name = partName(file.name)
		}
		data, err := file.encode()
		if err == nil {
			err = pathless(writeFile(file.name, data))
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", file.flag, file.name, err)
		}
		written = append(written, file.name)
	}
	terminal.Say("%s in %.1f s", terminal.Count(out.made, "image"), time.Since(out.began).Seconds())
	for _, name := range written {
		if out.f.json { // standard output has the lines
			terminal.Say("%s", name)
		} else if err := printLine(name); err != nil {
			return err
		}
	}
	return nil
}

// drawSheet draws the contact sheet, of a folder's first images as they are there.
func (out *imageOutput) drawSheet() ([]byte, error) {
	sheet := out.sheet
	if out.folder != nil {
		n := min(out.f.n, sheetImages, out.folder.Done())
		sheet = images.NewSheet(n, out.size)
		for i := range n {
			m, err := images.Read(filepath.Join(out.f.out, out.folder.Name(i)))
			if err != nil {
				return nil, err
			}
			sheet.Put(i, m.NRGBA())
		}
	}
	var data bytes.Buffer
	err := png.Encode(&data, images.Enlarge(sheet.Canvas, out.f.scale))
	return data.Bytes(), err
}

func (out *imageOutput) drawFilm() ([]byte, error) {
	return out.film.Encode(out.m.Pictures, out.f.condition)
}
