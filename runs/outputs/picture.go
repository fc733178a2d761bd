package outputs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"path/filepath"

	"unmask/generate"
	"unmask/generate/traces"
	"unmask/internal/atomicfile"
	"unmask/media/images"
	"unmask/model"
	"unmask/paint"
	"unmask/runs"
)

// PictureRecord is a picture as a line of JSON.
type PictureRecord struct {
	ID   int    `json:"id"`
	Seed uint64 `json:"seed"`
	// IDs are the codes, row by row.
	IDs []int32 `json:"ids"`

	OpenedAt []int           `json:"opened_at"`
	LogProbs traces.LogProbs `json:"logprobs"`
	Steps    int             `json:"steps"`

	// Seconds is the time from the start of the picture's batch.
	Seconds float64 `json:"seconds"`

	Evaluated  generate.Work `json:"evaluated"`
	File       string        `json:"file,omitempty"`
	Unfinished bool          `json:"unfinished,omitempty"`

	// Class is as the user wrote it.
	Class string `json:"class,omitempty"`

	Prompt string `json:"prompt,omitempty"`
}

// MaxSheet is the most pictures on a contact sheet, so that memory does not grow with a run.
const MaxSheet = 64

// PictureOptions say where pictures go. Without a Dir there can be at most MaxSheet.
type PictureOptions struct {
	// Dir is a folder of 000000.png and so on, which can be continued. "" is none.
	Dir string

	// Settings are those of Dir, which must be those that it was begun with.
	Settings runs.Settings

	// Shard is the part of the run in Dir.
	Shard runs.Shard

	// Sheet is a PNG file, a contact sheet of the first pictures. "" is none.
	Sheet string

	// Bare says that Sheet is the run's only picture itself: no margin, its own size.
	Bare bool

	// Scale is the enlargement of sheet and film. 0 enlarges until a picture has about 192 pixels.
	Scale int

	// Film is a GIF file of the first pictures as their tokens open, "" for none. A job that
	// Enlarges has none.
	Film string

	// Lines receives a PictureRecord for each picture. It may be nil.
	Lines io.Writer

	// Say receives messages. It may be nil.
	Say func(line string)
}

// Pictures is an Output of pictures. They are written in the order of Missing, whatever the order
// in which they finish. One goroutine at a time may use one.
type Pictures struct {
	o    PictureOptions
	job  *Job
	size image.Point

	// missing are the samples that are still to be made.
	missing []runs.Span

	// early are samples that came before their turn, by index.
	early map[int]Sample

	// unwritten are the indexes of samples in the order of writing.
	unwritten []int

	// putFile receives each picture's file, in place of a folder or a sheet. It may be nil.
	putFile PutFunc

	// folder may be nil. pending are the indexes that it lacked when it was opened.
	folder  *runs.Folder
	pending map[int]bool

	sheet *images.Sheet
	film  *paint.Film

	// written counts the finished pictures that were written.
	written int
}

// CheckFolder returns an error if pictures cannot be written to the folder dir, "" for none. It is
// for before a model is loaded. The directory around the folder of a shard is made later.
func CheckFolder(dir string, s runs.Shard) error {
	if dir == "" || !s.Whole() {
		return nil
	}
	return atomicfile.CheckFolder(dir)
}

// OpenPictures returns an output for the pictures of a job. The caller closes it.
func OpenPictures(j *Job, o PictureOptions) (*Pictures, error) {
	return j.openPictures(o, []runs.Span{{N: j.Run.N}}, nil)
}

// openPictures begins the output of the pictures that are missing: a folder, a function that takes
// them, or one sheet with all of them.
func (j *Job) openPictures(o PictureOptions, missing []runs.Span, putFile PutFunc) (*Pictures,
	error) {
	width, height, err := j.Model.Pictures.Size()
	if err != nil {
		return nil, err
	}
	p := &Pictures{
		o:       o,
		job:     j,
		size:    image.Pt(width, height),
		missing: missing,
		putFile: putFile,
		early:   map[int]Sample{},
	}
	if j.outpainting != nil {
		p.size = j.outpainting.Size()
	}
	if p.o.Say == nil {
		p.o.Say = func(string) {}
	}
	if o.Film != "" {
		p.film = paint.NewFilm(j.Run.N, j.Model.Spec(), j.Run.Known)
	}
	if o.Dir != "" {
		err = p.openFolder()
	} else if putFile == nil {
		p.sheet = images.NewSheet(j.Run.N, p.size)
	}
	for _, s := range p.missing {
		for i := range s.N {
			p.unwritten = append(p.unwritten, s.First+i)
		}
	}
	return p, err
}

// visibleSide is the side in pixels that is large enough on a screen.
const visibleSide = 192

// scale returns the enlargement of sheet and film.
func (p *Pictures) scale() int {
	if p.o.Scale > 0 {
		return p.o.Scale
	}
	return max(1, visibleSide/max(p.size.X, p.size.Y, 1))
}

// openFolder opens the folder and lists the missing pictures. Existing pictures that a film needs
// come first.
func (p *Pictures) openFolder() error {
	n := p.job.Run.N
	folder, err := runs.OpenFolder(filepath.Clean(p.o.Dir), p.o.Settings, p.o.Shard, n)
	p.folder = folder
	if err != nil {
		return err
	}
	p.pending = map[int]bool{}
	for _, i := range folder.Pending(n) {
		p.pending[i] = true
	}
	for _, fault := range folder.Faults() {
		p.o.Say(fmt.Sprintf("%s: made again", fault))
	}
	first, end := p.o.Shard.Range(n)
	if made := end - first - len(p.pending); made > 0 {
		p.o.Say(fmt.Sprintf("%d of %d images are there", made, end-first))
	}
	p.missing = folder.Missing(n, model.Indexes(0, p.film.Len()))
	return nil
}

// Missing returns the samples for MakeSamples that are still to be made.
func (p *Pictures) Missing() []runs.Span { return p.missing }

// Written returns the number of pictures finished and written.
func (p *Pictures) Written() int { return p.written }

// RecordFilm records a step for the film; it is a Hooks.Step.
func (p *Pictures) RecordFilm(step *generate.Step) error {
	for _, q := range step.Sequences {
		p.film.Add(q.Sequence)
	}
	return nil
}

// Put implements Output. A contact sheet shows unfinished pictures too; a folder does not have
// them.
func (p *Pictures) Put(samples []Sample) error {
	for _, s := range samples {
		if !s.Unfinished || p.folder == nil {
			p.early[s.Index] = s
		}
	}
	for len(p.unwritten) > 0 {
		s, ok := p.early[p.unwritten[0]]
		if !ok {
			return nil
		}
		delete(p.early, s.Index)
		p.unwritten = p.unwritten[1:]
		if err := p.decodeAndWrite(s); err != nil {
			return err
		}
	}
	return nil
}

// decodeAndWrite decodes a picture and writes it, unless the folder has it: a film needs the steps
// of existing pictures too.
func (p *Pictures) decodeAndWrite(s Sample) error {
	if p.folder != nil && !p.pending[s.Index] {
		return nil
	}
	pictures := p.job.Model.Pictures
	codes, masked, err := pictures.Fill(s.Tokens)
	if err != nil {
		return err
	}
	condition := p.job.Requests.Prepared(s.Index).Condition
	picture, err := pictures.ConditionedImage(codes, condition)
	if err != nil {
		return fmt.Errorf("image %d: %w", s.Index, err)
	}
	if p.job.inpainting != nil {
		if err := p.job.inpainting.Paste(picture); err != nil {
			return err
		}
	}
	return p.write(s, picture, masked)
}

// write writes a picture to the folder or onto the sheet, where masked cells are chequered.
func (p *Pictures) write(s Sample, picture *image.NRGBA, masked []int) error {
	name := ""
	if p.folder != nil || p.putFile != nil {
		if err := p.writeFile(s, picture); err != nil {
			return err
		}
		if p.folder != nil {
			name = filepath.Join(p.o.Dir, p.folder.Name(s.Index))
		}
	} else {
		cells, err := p.job.Model.Pictures.Cells(masked)
		if err != nil {
			return err
		}
		images.DrawCheck(picture, cells)
		p.sheet.Put(s.Index, picture)
	}
	if !s.Unfinished {
		p.written++
	}
	return p.writeRecord(s, name)
}

// writeFile writes a picture to the folder, with its class or prompt in text chunks.
func (p *Pictures) writeFile(s Sample, picture image.Image) error {
	var data bytes.Buffer
	if err := png.Encode(&data, picture); err != nil {
		return err
	}
	file := data.Bytes()
	r := p.job.Requests.Original(s.Index)
	if p.job.Model.Spec().Prompt || r.Class != "" {
		recipe := p.job.Requests.Prepared(s.Index).Recipe
		file = images.AddLabels(file, [][2]string{
			{"class", r.Class},
			{"prompt", r.Prompt},
			{"negative prompt", r.Negative},
			{"seed", fmt.Sprint(s.Seed)},
			{"index", fmt.Sprint(s.Index)},
			{"recipe", recipe.WithoutIgnored().String()},
		})
	}
	if p.putFile != nil {
		return p.putFile(s.Index, s.Seed, file)
	}
	return p.folder.Put(s.Index, s.Seed, file)
}

// writeRecord writes the line of a picture, whose file has this name.
func (p *Pictures) writeRecord(s Sample, name string) error {
	if p.o.Lines == nil {
		return nil
	}
	r := p.job.Requests.Original(s.Index)
	line, err := json.Marshal(PictureRecord{
		ID:         s.Index,
		Seed:       s.Seed,
		IDs:        s.Tokens,
		OpenedAt:   s.Opening.Steps,
		LogProbs:   s.Opening.LogP,
		Steps:      s.Steps,
		Seconds:    s.Seconds,
		Evaluated:  s.Evaluated,
		File:       name,
		Unfinished: s.Unfinished,
		Class:      r.Class,
		Prompt:     r.Prompt,
	})
	if err != nil {
		return err
	}
	_, err = p.o.Lines.Write(append(line, '\n'))
	return err
}

// Enlarge makes the pictures of a job that enlarges one, batch by batch, and calls onBatch, which
// may be nil, after each. After an error a folder has the pictures finished before.
func (p *Pictures) Enlarge(ctx context.Context, onBatch func()) error {
	for len(p.unwritten) > 0 {
		batch := p.unwritten[:min(p.job.Run.Batch, len(p.unwritten))]
		var requests []generate.Request
		for _, i := range batch {
			requests = append(requests, p.job.Requests.Prepared(i))
		}
		pictures, err := p.job.outpainting.Draw(ctx, requests)
		if err != nil {
			return err
		}
		p.unwritten = p.unwritten[len(batch):]
		for k, picture := range pictures {
			s := Sample{
				Index:   batch[k],
				Seed:    requests[k].Seed,
				Steps:   requests[k].Steps,
				Opening: &traces.Opening{},
			}
			if err := p.write(s, picture, nil); err != nil {
				return err
			}
			if onBatch != nil {
				onBatch()
			}
		}
	}
	return nil
}
