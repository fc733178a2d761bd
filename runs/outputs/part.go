package outputs

import (
	"context"

	"unmask"
)

// MakePictures makes pictures first to first+count-1 of a run, completed by Model.Check, and passes
// each one's file to put: byte for byte those in a folder of the run. o.Dir, o.Sheet and o.Film
// must be "".
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

// MakeTexts makes texts first to first+count-1 of a run, completed by Model.Check, and passes each
// one's line to put: byte for byte those in a file of lines of the run.
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
