package outputs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"maps"
	"path/filepath"
	"strings"

	"unmask"
	"unmask/generate/traces"
	"unmask/images"
	"unmask/internal/atomicfile"
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
	Evaluated  Evaluated       `json:"evaluated"`
	File       string          `json:"file,omitempty"`
	Unfinished bool            `json:"unfinished,omitempty"`
	Class      string          `json:"class,omitempty"` // as the user wrote it
	Prompt     string          `json:"prompt,omitempty"`
}

// Most is the most pictures on a contact sheet, so that memory does not grow with a run.
const Most = 64

// PictureOptions say where pictures go. Without a Dir there can be at most Most.
type PictureOptions struct {
	Dir      string        // folder of 000000.png and so on, which can be continued; "" for none
	Settings runs.Settings // settings of Dir; those that it was begun with
	Shard    runs.Shard    // the part of the run in Dir

	// Each, if not nil, receives each picture's file, in place of a Dir or a sheet.
	Each func(i int, seed uint64, file []byte) error

	Sheet string // PNG file, a contact sheet of the first pictures; "" for none
	Bare  bool   // Sheet is the run's only picture itself: no margin, its own size
	Scale int    // enlargement of sheet and film; 0: until a picture has about 192 pixels
	Film  string // GIF file of the first pictures as their tokens open; "" for none

	Lines io.Writer // receives a PictureRecord for each picture; nil for none

	Conditions *unmask.Conditions // conditions of the pictures; nil for none

	// Grow, if not nil, makes enlarged pictures of a given one; use Pictures.Grow instead of Make.
	// Film must be "".
	Grow *unmask.Outpainting

	// Paste, if not nil, restores the kept part of a given picture.
	Paste *unmask.Inpainting

	Say func(line string) // receives messages; may be nil
}

// Pictures is an Output of pictures. They are written in the order of Runs, whatever the order in
// which they finish. One goroutine at a time may use one.
type Pictures struct {
	o     PictureOptions
	m     *unmask.Model
	r     unmask.Run
	size  image.Point
	list  []unmask.Run
	early map[int]Sample // samples that came before their turn
	next  []int          // indexes in the order of writing

	folder  *runs.Folder
	pending map[int]bool // indexes missing in the folder
	sheet   *images.Sheet
	film    *unmask.Film
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

// OpenPictures returns an output for the pictures that m makes with r, completed by Model.Check.
// The caller closes it.
func OpenPictures(m *unmask.Model, r unmask.Run, o PictureOptions) (*Pictures, error) {
	width, height, err := m.Pictures.Size()
	if err != nil {
		return nil, err
	}
	p := &Pictures{o: o, m: m, r: r, size: image.Pt(width, height), early: map[int]Sample{}}
	if o.Grow != nil {
		p.size = o.Grow.Size()
	}
	if p.o.Say == nil {
		p.o.Say = func(string) {}
	}
	if o.Film != "" {
		p.film = unmask.NewFilm(r.N, m.Spec(), r.Tokens)
	}
	switch {
	case o.Dir != "":
		err = p.openFolder()
	case o.Each != nil:
		p.list = []unmask.Run{r}
	default:
		p.sheet, p.list = images.NewSheet(r.N, p.size), []unmask.Run{r}
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
	if p.folder, err = runs.OpenFolderShard(filepath.Clean(p.o.Dir), ".png", p.o.RunSettings(),
		p.o.Shard, p.r.N); err != nil {
		return err
	}
	p.pending = map[int]bool{}
	for _, i := range p.folder.Pending(p.r.N) {
		p.pending[i] = true
	}
	for _, fault := range p.folder.Faults() {
		p.o.Say(fmt.Sprintf("%s: made again", fault))
	}
	first, end := p.o.Shard.Range(p.r.N)
	if done := end - first - len(p.pending); done > 0 {
		p.o.Say(fmt.Sprintf("%d of %d images are there", done, end-first))
	}
	filmed := make([]int, p.film.Len())
	for i := range filmed {
		filmed[i] = i
	}
	p.list = p.folder.Runs(p.r, filmed)
	return nil
}

// RunSettings returns what the pictures' bytes depend on: Settings and what other options add.
func (o *PictureOptions) RunSettings() runs.Settings {
	s := maps.Clone(o.Settings)
	if o.Grow != nil {
		s["outpaint"] = o.Grow.Hash()
	}
	if o.Paste != nil {
		s["paste"] = o.Paste.Hash()
	}
	if c := o.Conditions; c != nil {
		name := "prompt"
		if class, _ := c.Text(0); class != "" {
			name = "class"
		}
		s[name] = strings.Join(c.Asked, "\n")
		if c.Negative != "" {
			s["negative"] = c.Negative
		}
	}
	return s
}

// Runs returns the runs for Make that make the missing pictures.
func (p *Pictures) Runs() []unmask.Run { return p.list }

// Made returns the number of pictures finished and written.
func (p *Pictures) Made() int { return p.made }

// Film records a step for the film; it is a Hooks.Step.
func (p *Pictures) Film(step *unmask.Step) error {
	for i := range step.Sequences {
		p.film.Add(&step.Sequences[i])
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
	codes, masked, err := p.m.Pictures.Fill(s.Tokens, p.m.Spec().Mask)
	if err != nil {
		return err
	}
	picture, err := p.m.Pictures.ImageOf(codes, p.o.Conditions.Of(s.Index))
	if err != nil {
		return fmt.Errorf("image %d: %w", s.Index, err)
	}
	if in := p.o.Paste; in != nil {
		if err := p.m.Paste(picture, in.Picture, in.Hole); err != nil {
			return err
		}
	}
	return p.place(s, picture, masked)
}

// place puts a picture into the folder or onto the sheet, where masked cells are chequered.
func (p *Pictures) place(s Sample, picture image.Image, masked []int) error {
	name := ""
	switch {
	case p.folder != nil || p.o.Each != nil:
		if err := p.file(s.Index, picture); err != nil {
			return err
		}
		if p.folder != nil {
			name = filepath.Join(p.o.Dir, p.folder.Name(s.Index))
		}
	default:
		hidden, err := p.m.Pictures.Cells(masked)
		if err != nil {
			return err
		}
		p.sheet.Put(s.Index, picture)
		p.sheet.Check(s.Index, hidden)
	}
	if !s.Unfinished {
		p.made++
	}
	return p.line(s, name)
}

// file writes a picture to the folder, with its class or prompt in text chunks.
func (p *Pictures) file(i int, picture image.Image) error {
	var data bytes.Buffer
	if err := png.Encode(&data, picture); err != nil {
		return err
	}
	file := data.Bytes()
	if c := p.o.Conditions; c != nil {
		class, prompt := c.Text(i)
		file = images.Label(file, [][2]string{{"class", class}, {"prompt", prompt},
			{"negative prompt", c.Negative}, {"seed", fmt.Sprint(p.r.Seed)}, {"index", fmt.Sprint(i)},
			{"recipe", p.r.Recipe().String()}})
	}
	if p.o.Each != nil {
		return p.o.Each(i, p.r.Seed, file)
	}
	return p.folder.Put(i, p.r.Seed, file)
}

func (p *Pictures) line(s Sample, name string) error {
	if p.o.Lines == nil {
		return nil
	}
	class, prompt := p.o.Conditions.Text(s.Index)
	line, err := json.Marshal(PictureRecord{Class: class, Prompt: prompt, ID: s.Index, Seed: p.r.Seed,
		IDs: s.Tokens, OpenedAt: s.Opening.Steps, LogProbs: s.Opening.LogP, Steps: s.Steps,
		Seconds: s.Seconds, File: name, Unfinished: s.Unfinished,
		Evaluated: evaluated(s.Evaluated)})
	if err == nil {
		_, err = p.o.Lines.Write(append(line, '\n'))
	}
	return err
}
