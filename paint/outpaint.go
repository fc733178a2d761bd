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

// ParseMargins reads SIDE=PIXELS separated by commas, such as left=64,top=32. Another side, one
// that is there twice, and margins below 1 are errors.
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

	// canvas has the enlarged size, with the picture in it; its margins are black.
	canvas *image.NRGBA

	// windows are in the order in which they are made.
	windows []window
}

// window is a part of the canvas that is made in one run.
type window struct {
	// place is where it stands on the canvas.
	place image.Rectangle

	// hole has the window's size, and is white where nothing is there yet.
	hole *image.Gray
}

// Outpaint prepares the enlargement of a picture by margins, by the network of these pictures. The
// result must be at least as large as they are.
func (p *Pictures) Outpaint(d model.Denoiser, picture image.Image, add Margins) (*Outpainting,
	error) {
	c, err := p.gridCodec()
	if err != nil {
		return nil, err
	}
	width, height := c.Size()
	bounds := picture.Bounds()
	size := image.Pt(bounds.Dx()+add.Left+add.Right, bounds.Dy()+add.Top+add.Bottom)
	switch {
	case bounds.Empty() || add == Margins{} || min(add.Left, add.Top, add.Right, add.Bottom) < 0:
		return nil, fmt.Errorf("a picture of %d x %d pixels grows by %q, want margins of more than 0",
			bounds.Dx(), bounds.Dy(), add)
	case size.X < width || size.Y < height:
		return nil, fmt.Errorf("the picture has %d x %d pixels with its margins, want %d x %d at least",
			size.X, size.Y, width, height)
	case size.X > images.MaxPixels/size.Y:
		return nil, fmt.Errorf("the picture has %d x %d pixels with its margins, want %d in all at most",
			size.X, size.Y, images.MaxPixels)
	}
	o := &Outpainting{denoiser: d, pictures: p, canvas: image.NewNRGBA(image.Rectangle{Max: size})}
	original := image.Rect(add.Left, add.Top, add.Left+bounds.Dx(), add.Top+bounds.Dy())
	draw.Draw(o.canvas, o.canvas.Rect, image.Black, image.Point{}, draw.Src)
	place, err := images.Place(bounds.Size(), bounds.Size(), "")
	if err != nil {
		return nil, err
	}
	draw.Draw(o.canvas, original, place.Picture(picture), image.Point{}, draw.Src)
	o.planWindows(image.Pt(width, height), original)
	return o, nil
}

// planWindows orders the windows: the next is always the one with the most pixels already there.
// Windows stand half a window apart, and at the edges.
func (p *Outpainting) planWindows(size image.Point, original image.Rectangle) {
	bounds := p.canvas.Rect
	painted := image.NewGray(bounds) // white where something is there
	draw.Draw(painted, original, image.White, image.Point{}, draw.Src)
	var places []image.Rectangle
	for _, y := range windowStarts(bounds.Dy(), size.Y) {
		for _, x := range windowStarts(bounds.Dx(), size.X) {
			places = append(places, image.Rect(x, y, x+size.X, y+size.Y))
		}
	}

	for {
		best := -1
		mostPainted := 0
		for i, place := range places {
			n := countWhite(painted, place)
			if n < size.X*size.Y && n > mostPainted {
				best = i
				mostPainted = n
			}
		}
		if best < 0 {
			return
		}
		w := window{place: places[best], hole: image.NewGray(image.Rectangle{Max: size})}
		for i := range w.hole.Pix {
			pixel := w.place.Min.Add(image.Pt(i%size.X, i/size.X))
			w.hole.Pix[i] = 255 - painted.GrayAt(pixel.X, pixel.Y).Y
		}
		p.windows = append(p.windows, w)
		draw.Draw(painted, w.place, image.White, image.Point{}, draw.Src)
	}
}

// windowStarts returns where windows of length size begin along a side of the canvas.
func windowStarts(side, size int) (list []int) {
	for start := 0; start < side-size; start += max(size/2, 1) {
		list = append(list, start)
	}
	return append(list, side-size)
}

// countWhite counts the white pixels of m in a rectangle.
func countWhite(m *image.Gray, r image.Rectangle) (n int) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		row := m.Pix[m.PixOffset(r.Min.X, y):][:r.Dx()]
		for _, v := range row {
			n += int(v) / 255
		}
	}
	return n
}

// Size returns the width and height of the enlarged picture in pixels.
func (p *Outpainting) Size() image.Point { return p.canvas.Rect.Size() }

// Windows returns the number of windows, which are made one after the other.
func (p *Outpainting) Windows() int { return len(p.windows) }

// Hash returns a text that differs for other pictures or margins.
func (p *Outpainting) Hash() string {
	hash := sha256.New()
	for _, w := range p.windows {
		fmt.Fprint(hash, w.place)
		hash.Write(w.hole.Pix)
	}
	hash.Write(p.canvas.Pix)
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// RoundTripLoss returns the codes' loss in the kept part of the first window, as
// Pictures.RoundTripLoss measures it. If it is large the picture's edge shows.
func (p *Outpainting) RoundTripLoss() (float64, error) {
	w := &p.windows[0]
	return p.pictures.RoundTripLoss(w.cut(p.canvas), w.hole)
}

// cut returns the window's part of a canvas, with its hole extended from what is there.
func (w *window) cut(canvas *image.NRGBA) *image.NRGBA {
	part := image.NewNRGBA(w.hole.Rect)
	draw.Draw(part, part.Rect, canvas, w.place.Min, draw.Src)
	fillHole(part, w.hole)
	return part
}

// Draw makes the enlarged pictures of a batch of prepared requests. A window with fewer masked
// cells than the steps of a request has one step per cell. The error is that of the network or the
// codec, with the number of the window.
func (p *Outpainting) Draw(ctx context.Context, list []generate.Request) ([]*image.NRGBA, error) {
	canvases := make([]*image.NRGBA, len(list))
	for i := range canvases {
		canvases[i] = image.NewNRGBA(p.canvas.Rect)
		copy(canvases[i].Pix, p.canvas.Pix)
	}
	for k := range p.windows {
		if err := p.drawWindow(ctx, list, k, canvases); err != nil {
			return nil, fmt.Errorf("window %d of %d: %w", k+1, len(p.windows), err)
		}
	}
	return canvases, nil
}

// drawWindow draws window k on the canvases of a batch. Each window uses random numbers of its own:
// with those of another one, two windows that begin alike would show the same thing.
func (p *Outpainting) drawWindow(ctx context.Context, list []generate.Request, k int,
	canvases []*image.NRGBA) (err error) {
	w := &p.windows[k]
	parts := make([]*image.NRGBA, len(canvases))
	requests := slices.Clone(list)
	guided := false
	var tokens []int32
	for i, canvas := range canvases {
		parts[i] = w.cut(canvas)
		if i == 0 || k > 0 { // the first window has the same in all
			tokens, err = p.pictures.Mask(parts[i], w.hole)
			if err != nil {
				return err
			}
		}
		r := &requests[i]
		r.Seed += uint64(k) << 32
		r.Known = tokens
		r.Steps = min(r.Steps, max(p.denoiser.Spec().CountMasked(tokens), 1))
		guided = guided || r.Guidance.Scale != 0
	}

	codes := make([][]int32, len(canvases))
	o := generate.PoolOptions{Size: len(canvases), Guided: guided}
	for step, err := range generate.Each(ctx, p.denoiser, o, slices.Values(requests)) {
		if err != nil {
			return err
		}
		for _, q := range step.Sequences {
			if q.Finished {
				codes[q.Number] = slices.Clone(q.Tokens)
			}
		}
	}
	for i := range canvases {
		picture, err := p.pictures.ConditionedImage(codes[i], list[i].Condition)
		if err != nil {
			return err
		}
		if err := p.pictures.Paste(picture, parts[i], w.hole); err != nil {
			return err
		}
		draw.Draw(canvases[i], w.place, picture, image.Point{}, draw.Src)
	}
	return nil
}

// fillHole fills the hole with the colour of the nearest kept pixel in the row, or in the nearest
// row that has kept pixels, so that the codes of cells at the hole's edge are those of a whole
// picture.
func fillHole(m *image.NRGBA, hole *image.Gray) {
	width := m.Rect.Dx()
	height := m.Rect.Dy()
	hasKept := make([]bool, height) // of each row
	for y := range height {
		row := hole.Pix[y*hole.Stride:][:width]
		for x, source := range nearestKept(width, func(x int) bool { return row[x] == 0 }) {
			if source >= 0 {
				m.SetNRGBA(x, y, m.NRGBAAt(source, y))
				hasKept[y] = true
			}
		}
	}
	for y, source := range nearestKept(height, func(y int) bool { return hasKept[y] }) {
		if source >= 0 {
			copy(m.Pix[y*m.Stride:][:4*width], m.Pix[source*m.Stride:][:4*width])
		}
	}
}

// nearestKept returns, for each of n places, the index of the nearest kept place, -1 if none is
// kept; of two, the one before it.
func nearestKept(n int, isKept func(i int) bool) []int {
	nearest := make([]int, n)
	last := -1
	for i := range nearest {
		if isKept(i) {
			last = i
		}
		nearest[i] = last
	}
	last = -1
	for i := n - 1; i >= 0; i-- {
		if isKept(i) {
			last = i
		}
		if last >= 0 && (nearest[i] < 0 || last-i < i-nearest[i]) {
			nearest[i] = last
		}
	}
	return nearest
}
