package paint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/draw"
	"slices"
	"strconv"
	"strings"

	"unmask/generate"
	"unmask/media/images"
	"unmask/model"
)

// Margins are the pixels added at each side of a picture.
type Margins struct{ Left, Top, Right, Bottom int }

// ParseMargins reads SIDE=PIXELS separated by commas, such as left=64,top=32.
func ParseMargins(text string) (m Margins, err error) {
	sides := map[string]*int{"left": &m.Left, "top": &m.Top, "right": &m.Right, "bottom": &m.Bottom}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		side := sides[strings.TrimSpace(name)]
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if side == nil || err != nil || n < 1 || n > images.MaxPixels {
			return Margins{}, fmt.Errorf("margins are %.40q, want SIDE=PIXELS of left, top, right and "+
				"bottom, such as left=64,top=32", text)
		}
		if *side != 0 {
			return Margins{}, fmt.Errorf("margins are %.40q, want each side once", text)
		}
		*side = n
	}
	return m, nil
}

// String returns the text that ParseMargins reads.
func (m Margins) String() string {
	var parts []string
	for _, side := range []struct {
		name   string
		pixels int
	}{{"left", m.Left}, {"top", m.Top}, {"right", m.Right}, {"bottom", m.Bottom}} {
		if side.pixels != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", side.name, side.pixels))
		}
	}
	return strings.Join(parts, ",")
}

// Outpainting enlarges a picture. The picture is kept except for one cell of the model's grid along
// its edges, where it is mixed with the new part as Paste does. The new part is made in windows of
// the model's size, one after the other; each continues the picture and the windows before it.
type Outpainting struct {
	denoiser model.Denoiser
	pictures *Pictures
	picture  *image.NRGBA // on the canvas; its margins are black
	windows  []window
}

// window is a part of the canvas that is made in one run.
type window struct {
	at   image.Rectangle
	hole *image.Gray // of the window's size, white where nothing is there yet
}

// Outpaint prepares the enlargement of a picture by margins, by the network of these pictures. The
// result must be at least as large as they are.
func (p *Pictures) Outpaint(d model.Denoiser, picture image.Image, add Margins) (*Outpainting,
	error) {
	c, err := p.grid()
	if err != nil {
		return nil, err
	}
	width, height := c.Size()
	from := picture.Bounds()
	size := image.Pt(from.Dx()+add.Left+add.Right, from.Dy()+add.Top+add.Bottom)
	switch {
	case from.Empty() || add == Margins{} || min(add.Left, add.Top, add.Right, add.Bottom) < 0:
		return nil, fmt.Errorf("a picture of %d x %d pixels grows by %q, want margins of more than 0",
			from.Dx(), from.Dy(), add)
	case size.X < width || size.Y < height:
		return nil, fmt.Errorf("the picture has %d x %d pixels with its margins, want %d x %d at least",
			size.X, size.Y, width, height)
	case size.X > images.MaxPixels/size.Y:
		return nil, fmt.Errorf("the picture has %d x %d pixels with its margins, want %d in all at most",
			size.X, size.Y, images.MaxPixels)
	}
	o := &Outpainting{denoiser: d, pictures: p, picture: image.NewNRGBA(image.Rectangle{Max: size})}
	kept := image.Rect(add.Left, add.Top, add.Left+from.Dx(), add.Top+from.Dy())
	draw.Draw(o.picture, o.picture.Rect, image.Black, image.Point{}, draw.Src)
	place, err := images.Place(from.Size(), from.Size(), "")
	if err != nil {
		return nil, err
	}
	draw.Draw(o.picture, kept, place.Picture(picture), image.Point{}, draw.Src)
	o.plan(image.Pt(width, height), kept)
	return o, nil
}

// plan orders the windows: the next is always the one with the most pixels already there. Windows
// stand half a window apart, and at the edges.
func (p *Outpainting) plan(size image.Point, kept image.Rectangle) {
	canvas := p.picture.Rect
	there := image.NewGray(canvas)
	draw.Draw(there, kept, image.White, image.Point{}, draw.Src)
	var places []image.Rectangle
	for _, y := range starts(canvas.Dy(), size.Y) {
		for _, x := range starts(canvas.Dx(), size.X) {
			places = append(places, image.Rect(x, y, x+size.X, y+size.Y))
		}
	}
	for {
		best, most := -1, 0
		for i, at := range places {
			if n := whites(there, at); n < size.X*size.Y && n > most {
				best, most = i, n
			}
		}
		if best < 0 {
			return
		}
		w := window{at: places[best], hole: image.NewGray(image.Rectangle{Max: size})}
		for i := range w.hole.Pix {
			at := w.at.Min.Add(image.Pt(i%size.X, i/size.X))
			w.hole.Pix[i] = 255 - there.GrayAt(at.X, at.Y).Y
		}
		p.windows = append(p.windows, w)
		draw.Draw(there, w.at, image.White, image.Point{}, draw.Src)
	}
}

// starts returns where windows of length size begin along a side of the canvas.
func starts(side, size int) (list []int) {
	for at := 0; at < side-size; at += max(size/2, 1) {
		list = append(list, at)
	}
	return append(list, side-size)
}

// whites counts the white pixels of m in a rectangle.
func whites(m *image.Gray, at image.Rectangle) (n int) {
	for y := at.Min.Y; y < at.Max.Y; y++ {
		row := m.Pix[m.PixOffset(at.Min.X, y):][:at.Dx()]
		for _, v := range row {
			n += int(v) / 255
		}
	}
	return n
}

// Size returns the width and height of the enlarged picture in pixels.
func (p *Outpainting) Size() image.Point { return p.picture.Rect.Size() }

// Windows returns the number of windows, which are made one after the other.
func (p *Outpainting) Windows() int { return len(p.windows) }

// Hash returns a text that differs for other pictures or margins.
func (p *Outpainting) Hash() string {
	hash := sha256.New()
	for _, w := range p.windows {
		fmt.Fprint(hash, w.at)
		hash.Write(w.hole.Pix)
	}
	hash.Write(p.picture.Pix)
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// RoundTripLoss returns the codes' loss in the kept part of the first window, as RoundTrip
// measures it. If it is large the picture's edge shows.
func (p *Outpainting) RoundTripLoss() (float64, error) {
	w := &p.windows[0]
	given := image.NewNRGBA(w.hole.Rect)
	draw.Draw(given, given.Rect, p.picture, w.at.Min, draw.Src)
	extend(given, w.hole)
	return p.pictures.RoundTripLoss(given, w.hole)
}

// Draw makes the enlarged pictures of a batch of prepared requests. A window with fewer masked
// cells than the steps of a request has one step per cell.
func (p *Outpainting) Draw(ctx context.Context, list []generate.Request) ([]*image.NRGBA, error) {
	made := make([]*image.NRGBA, len(list))
	for i := range made {
		made[i] = image.NewNRGBA(p.picture.Rect)
		copy(made[i].Pix, p.picture.Pix)
	}
	for k := range p.windows {
		if err := p.window(ctx, list, k, made); err != nil {
			return nil, fmt.Errorf("window %d of %d: %w", k+1, len(p.windows), err)
		}
	}
	return made, nil
}

// window draws window k of the pictures in made. Each window uses random numbers of its own.
func (p *Outpainting) window(ctx context.Context, list []generate.Request, k int,
	made []*image.NRGBA) (err error) {
	w := &p.windows[k]
	given, drawn := make([]*image.NRGBA, len(made)), make([][]int32, len(made))
	requests, guided := slices.Clone(list), false
	var tokens []int32
	for i, picture := range made {
		given[i] = image.NewNRGBA(w.hole.Rect)
		draw.Draw(given[i], given[i].Rect, picture, w.at.Min, draw.Src)
		extend(given[i], w.hole)
		if i == 0 || k > 0 { // the first window has the same in all
			if tokens, err = p.pictures.Mask(given[i], w.hole); err != nil {
				return err
			}
		}
		q := &requests[i]
		q.Seed, q.Known = q.Seed+uint64(k)<<32, tokens
		q.Steps = min(q.Steps, max(p.denoiser.Spec().CountMasked(tokens), 1))
		guided = guided || q.Guidance.Scale != 0
	}
	o := generate.PoolOptions{Size: len(made), Guided: guided}
	for step, err := range generate.Each(ctx, p.denoiser, o, slices.Values(requests)) {
		if err != nil {
			return err
		}
		for _, q := range step.Sequences {
			if q.Finished {
				drawn[q.Number] = slices.Clone(q.Tokens)
			}
		}
	}
	for i, codes := range drawn {
		picture, err := p.pictures.ConditionedImage(codes, list[i].Condition)
		if err != nil {
			return err
		}
		if err := p.pictures.Paste(picture, given[i], w.hole); err != nil {
			return err
		}
		draw.Draw(made[i], w.at, picture, image.Point{}, draw.Src)
	}
	return nil
}

// extend fills the hole with the colour of the nearest kept pixel in the row, or in the nearest row
// that has kept pixels, so that the codes of cells at the hole's edge are those of a whole picture.
func extend(m *image.NRGBA, hole *image.Gray) {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	rows := make([]bool, height) // that have kept pixels
	for y := range height {
		row := hole.Pix[y*hole.Stride:][:width]
		for x, at := range nearest(width, func(x int) bool { return row[x] == 0 }) {
			if at >= 0 {
				m.SetNRGBA(x, y, m.NRGBAAt(at, y))
				rows[y] = true
			}
		}
	}
	for y, at := range nearest(height, func(y int) bool { return rows[y] }) {
		if at >= 0 {
			copy(m.Pix[y*m.Stride:][:4*width], m.Pix[at*m.Stride:][:4*width])
		}
	}
}

// nearest returns, for each of n places, the index of the nearest kept place, -1 if none is kept.
func nearest(n int, kept func(at int) bool) []int {
	list, last := make([]int, n), -1
	for i := range list {
		if kept(i) {
			last = i
		}
		list[i] = last
	}
	last = -1
	for i := n - 1; i >= 0; i-- {
		if kept(i) {
			last = i
		}
		if last >= 0 && (list[i] < 0 || last-i < i-list[i]) {
			list[i] = last
		}
	}
	return list
}
