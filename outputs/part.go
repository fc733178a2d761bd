package outputs

import (
	"context"

	"unmask"
)

// MakePictures makes the pictures first to first+count-1 of a run, completed by Model.Check, and
// hands each one's file to put: what a folder of the run has, byte for byte. o.Dir, o.Sheet and
// o.Film are "".
func MakePictures(ctx context.Context, m *unmask.Model, r unmask.Run, o PictureOptions, first,
	count int, put func(i int, seed uint64, file []byte) error) error {
	r.First, r.N, o.Each = first, count, put
	r.Batch = min(r.Batch, count)
	out, err := OpenPictures(m, r, o)
	if err != nil {
		return err
	}
	if o.Grow != nil {
		return out.Grow(ctx, nil)
	}
	return Make(ctx, m, out.Runs(), out, Hooks{})
}

// MakeTexts makes the texts first to first+count-1 of a run, completed by Model.Check, and hands
// each one's line to put: what a file of lines of the run has, byte for byte.
func MakeTexts(ctx context.Context, m *unmask.Model, r unmask.Run, o TextOptions, first, count int,
	put func(i int, seed uint64, line []byte) error) error {
	r.First, r.N, o.Each = first, count, put
	r.Batch = min(r.Batch, count)
	out, err := NewTexts(o)
	if err != nil {
		return err
	}
	if r, err = out.Begin(m, r, nil); err != nil {
		return err
	}
	if o.Of != nil {
		return MakeEach(ctx, m, r, o.Of, out, Hooks{})
	}
	return Make(ctx, m, []unmask.Run{r}, out, Hooks{})
}
