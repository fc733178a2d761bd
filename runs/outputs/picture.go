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
	ID         int             `json:"id"`
	Seed       uint64          `json:"seed"`
	IDs        []int32         `json:"ids"` // codes, row by row
	OpenedAt   []int           `json:"opened_at"`
	LogProbs   traces.LogProbs `json:"logprobs"`
	Steps      int             `json:"steps"`
	Seconds    float64         `json:"seconds"` // from the start of its batch
	Evaluated  generate.Work   `json:"evaluated"`
	File       string          `json:"file,omitempty"`
	Unfinished bool            `json:"unfinished,omitempty"`
	Class      string          `json:"class,omitempty"` // as the user wrote it
	Prompt     string          `json:"prompt,omitempty"`
}

// MaxSheet is the most pictures on a contact sheet, so that memory does not grow with a run.
const MaxSheet = 64

// PictureOptions say where pictures go. Without a Dir there can be at most MaxSheet.
type PictureOptions struct {
	Dir      string        // folder of 000000.png and so on, which can be continued; "" for none
	Settings runs.Settings // settings of Dir; those that it was begun with
	Shard    runs.Shard    // the part of the run in Dir

	Sheet string // PNG file, a contact sheet of the first pictures; "" for none
	Bare  bool   // Sheet is the run's only picture itself: no margin, its own size
	Scale int    // enlargement of sheet and film; 0: until a picture has about 192 pixels
	Film  string // GIF file of the first pictures as their tokens open; "" for none, see Enlarges

	Lines io.Writer // receives a PictureRecord for each picture; nil for none

	Say func(line string) // receives messages; may be nil
}

// Pictures is an Output of pictures. They are written in the order of Missing, whatever the order
// in which they finish. One goroutine at a time may use one.
type Pictures struct {
	o     PictureOptions
	j     *Job
	size  image.Point
	list  []runs.Span
	early map[int]Sample // samples that came before their turn
	next  []int          // indexes in the order of writing

	each    PutFunc // receives each picture's file, in place of a folder or a sheet; nil: none
	folder  *runs.Folder
	pending map[int]bool // indexes missing in the folder
	sheet   *images.Sheet
	film    *paint.Film
	made    int
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

func (j *Job) openPictures(o PictureOptions, list []runs.Span, each PutFunc) (*Pictures, error) {
	width, height, err := j.Model.Pictures.Size()
	if err != nil {
		return nil, err
	}
	p := &Pictures{o: o, j: j, size: image.Pt(width, height), list: list, each: each,
		early: map[int]Sample{}}
	if j.larger != nil {
		p.size = j.larger.Size()
	}
	if p.o.Say == nil {
		p.o.Say = func(string) {}
	}
	if o.Film != "" {
		p.film = paint.NewFilm(j.Run.N, j.Model.Spec(), j.Run.Known)
	}
	switch {
	case o.Dir != "":
		err = p.openFolder()
	case each == nil:
		p.sheet = images.NewSheet(j.Run.N, p.size)
	}
	for _, r := range p.list {
		for i := range r.N {
			p.next = append(p.next, r.First+i)
		}
	}
	return p, err
}

// scale returns the enlargement of sheet and film.
func (p *Pictures) scale() int {
	const seen = 192 // side in pixels that is large enough on a screen
	if p.o.Scale > 0 {
		return p.o.Scale
	}
	return max(1, seen/max(p.size.X, p.size.Y, 1))
}

// openFolder opens the folder and lists the missing pictures. Existing pictures that a film needs
// come first.
func (p *Pictures) openFolder() (err error) {
	if p.folder, err = runs.OpenFolder(filepath.Clean(p.o.Dir), p.o.Settings,
		p.o.Shard, p.j.Run.N); err != nil {
		return err
	}
	p.pending = map[int]bool{}
	for _, i := range p.folder.Pending(p.j.Run.N) {
		p.pending[i] = true
	}
	for _, fault := range p.folder.Faults() {
		p.o.Say(fmt.Sprintf("%s: made again", fault))
	}
	first, end := p.o.Shard.Range(p.j.Run.N)
	if done := end - first - len(p.pending); done > 0 {
		p.o.Say(fmt.Sprintf("%d of %d images are there", done, end-first))
	}
	p.list = p.folder.Missing(p.j.Run.N, model.Indexes(0, p.film.Len()))
	return nil
}

// Missing returns the samples for Make that are still to be made.
func (p *Pictures) Missing() []runs.Span { return p.list }

// Written returns the number of pictures finished and written.
func (p *Pictures) Written() int { return p.made }

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
	for len(p.next) > 0 {
		s, ok := p.early[p.next[0]]
		if !ok {
			return nil
		}
		delete(p.early, s.Index)
		p.next = p.next[1:]
		if err := p.put(s); err != nil {
			return err
		}
	}
	return nil
}

// put decodes a picture and writes it.
func (p *Pictures) put(s Sample) error {
	if p.folder != nil && !p.pending[s.Index] {
		return nil
	}
	codes, masked, err := p.j.Model.Pictures.Fill(s.Tokens)
	if err != nil {
		return err
	}
	picture, err := p.j.Model.Pictures.ConditionedImage(codes,
		p.j.Requests.Prepared(s.Index).Condition)
	if err != nil {
		return fmt.Errorf("image %d: %w", s.Index, err)
	}
	if in := p.j.paste; in != nil {
		if err := in.Paste(picture); err != nil {
			return err
		}
	}
	return p.place(s, picture, masked)
}

// place puts a picture into the folder or onto the sheet, where masked cells are chequered.
func (p *Pictures) place(s Sample, picture *image.NRGBA, masked []int) error {
	name := ""
	switch {
	case p.folder != nil || p.each != nil:
		if err := p.file(s, picture); err != nil {
			return err
		}
		if p.folder != nil {
			name = filepath.Join(p.o.Dir, p.folder.Name(s.Index))
		}
	default:
		hidden, err := p.j.Model.Pictures.Cells(masked)
		if err != nil {
			return err
		}
		images.DrawCheck(picture, hidden)
		p.sheet.Put(s.Index, picture)
	}
	if !s.Unfinished {
		p.made++
	}
	return p.line(s, name)
}

// file writes a picture to the folder, with its class or prompt in text chunks.
func (p *Pictures) file(s Sample, picture image.Image) error {
	var data bytes.Buffer
	if err := png.Encode(&data, picture); err != nil {
		return err
	}
	file := data.Bytes()
	r := p.j.Requests.Original(s.Index)
	if p.j.Model.Spec().Prompt || r.Class != "" {
		recipe := p.j.Requests.Prepared(s.Index).Recipe
		file = images.AddLabels(file, [][2]string{
			{"class", r.Class},
			{"prompt", r.Prompt},
			{"negative prompt", r.Negative},
			{"seed", fmt.Sprint(s.Seed)},
			{"index", fmt.Sprint(s.Index)},
			{"recipe", recipe.WithoutIgnored().String()},
		})
	}
	if p.each != nil {
		return p.each(s.Index, s.Seed, file)
	}
	return p.folder.Put(s.Index, s.Seed, file)
}

func (p *Pictures) line(s Sample, name string) error {
	if p.o.Lines == nil {
		return nil
	}
	r := p.j.Requests.Original(s.Index)
	line, err := json.Marshal(PictureRecord{Class: r.Class, Prompt: r.Prompt, ID: s.Index,
		Seed: s.Seed, IDs: s.Tokens, OpenedAt: s.Opening.Steps, LogProbs: s.Opening.LogP, Steps: s.Steps,
		Seconds: s.Seconds, File: name, Unfinished: s.Unfinished,
		Evaluated: s.Evaluated})
	if err == nil {
		_, err = p.o.Lines.Write(append(line, '\n'))
	}
	return err
}

// Enlarge makes the pictures of a job that enlarges one, batch by batch, and calls done, which may
// be nil, after each. After an error a folder has the pictures finished before.
func (p *Pictures) Enlarge(ctx context.Context, done func()) error {
	for len(p.next) > 0 {
		at := p.next[:min(p.j.Run.Batch, len(p.next))]
		var list []generate.Request
		for _, i := range at {
			list = append(list, p.j.Requests.Prepared(i))
		}
		made, err := p.j.larger.Draw(ctx, list)
		if err != nil {
			return err
		}
		p.next = p.next[len(at):]
		for k, picture := range made {
			s := Sample{Index: at[k], Seed: list[k].Seed, Steps: list[k].Steps,
				Opening: &traces.Opening{}}
			if err := p.place(s, picture, nil); err != nil {
				return err
			}
			if done != nil {
				done()
			}
		}
	}
	return nil
}
