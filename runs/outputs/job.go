package outputs

import (
	"context"
	"errors"
	"iter"

	"unmask"
	"unmask/backend/open"
	"unmask/generate"
	"unmask/generate/footprint"
	"unmask/paint"
	"unmask/prompt"
	"unmask/runs"
)

// Job is a run of texts or pictures that was prepared for a model.
type Job struct {
	Model    *unmask.Model
	Requests *unmask.RequestList // of the samples
	// complete; of a list of texts, with the length of the longest
	Run generate.Options

	request unmask.Request
	larger  *paint.Outpainting // nil unless the pictures are a given one, enlarged
	paste   *paint.Inpainting  // its kept part is put back into the pictures; nil for none
}

// Prepare prepares n samples of a request or, if there are inputs, of each of them over it. batch
// is the number of samples at once, see generate.Options.
func Prepare(ctx context.Context, m *unmask.Model, r unmask.Request, inputs []unmask.Input,
	n, batch int) (*Job, error) {
	q, err := m.PrepareList(ctx, r, inputs)
	if err != nil {
		return nil, err
	}
	j := &Job{Model: m, Requests: q, request: r}
	if err = j.beginPictures(); err != nil {
		return nil, err
	}
	if m.Text != nil && q.FromFile() { // how many fit at once is by the longest
		spec := m.Spec()
		r.Length = q.Longest - spec.SpecialCount()
		r.MinLength, r.End, r.Cut, r.Grammar = 0, "", false, prompt.Grammar{}
		if q, err = m.PrepareList(ctx, r, nil); err != nil {
			return nil, err
		}
	}
	run := generate.Options{Request: q.Prepared(0), N: n, Batch: batch}
	j.Run, err = run.Check(m.Denoiser)
	if err != nil {
		return j, err
	}
	err = footprint.CheckBatch(m.Denoiser, m.Backend, j.Run.Request, j.Run.Batch)
	return j, err
}

// beginPictures reads the picture that all samples begin with, if they need it when they end.
func (j *Job) beginPictures() (err error) {
	in := j.request.Image
	switch {
	case in == nil:
	case in.Outpaint != "":
		j.larger, err = j.Model.Outpainting(in)
	case in.Paste:
		j.paste, err = j.Model.Inpainting(in)
	}
	return err
}

// RoundTripLoss returns how much the model's codes change what is kept of a picture, 0 to 255 in
// the mean: 0 if nothing is kept or it is put back.
func (j *Job) RoundTripLoss() (float64, error) {
	in := j.request.Image
	switch {
	case j.larger != nil:
		return j.larger.RoundTripLoss()
	case in == nil || in.Strength != 0 || j.paste != nil:
		return 0, nil
	}
	p, err := j.Model.Inpainting(in)
	if err != nil {
		return 0, err
	}
	return p.RoundTripLoss()
}

// Enlarges reports whether the samples are a given picture, enlarged, which Pictures.Enlarge makes.
func (j *Job) Enlarges() bool { return j.larger != nil }

// together reports whether all samples of a batch are at the same step.
func (j *Job) together() bool { return j.Model.Text == nil || !j.Requests.FromFile() }

// requests returns the requests of samples.
func (j *Job) requests(list []runs.Span) iter.Seq[generate.Request] {
	return func(yield func(generate.Request) bool) {
		for _, r := range list {
			for i := r.First; i < r.First+r.N; i++ {
				if !yield(j.Requests.Prepared(i)) {
					return
				}
			}
		}
	}
}

// about returns an error of the loop without the number of its request, unless there is a list.
func (j *Job) about(err error) error {
	if failed, ok := errors.AsType[*generate.RequestError](err); ok && !j.Requests.FromFile() {
		return failed.Err
	}
	return err
}

// Steps returns the most steps that samples take; a batch's steps count once. It is 0 if samples
// are at different steps.
func (j *Job) Steps(list []runs.Span) int64 {
	if !j.together() {
		return 0
	}
	return int64(j.Run.Steps) * int64((CountSamples(list)+j.Run.Batch-1)/j.Run.Batch)
}

// CountSamples returns the number of samples in a list.
func CountSamples(list []runs.Span) (n int) {
	for _, r := range list {
		n += r.N
	}
	return n
}

// Settings returns everything that decides the bytes of the job's outputs: the model's fingerprint,
// the precision of its weight products, the kind of its GPU, and the identity of the request or of
// the list.
func (j *Job) Settings(precision string) (runs.Settings, error) {
	fingerprint, err := j.Model.Fingerprint()
	if err != nil {
		return nil, err
	}
	s := runs.Settings(j.Model.Identity(&j.request, &j.Run.Request))
	s["model"], s["precision"] = fingerprint, precision
	if gpu := open.KindOf(j.Model.Backend); gpu != "" {
		s["device"] = gpu
	}
	if j.larger != nil {
		s["outpaint"] = j.larger.Hash()
	}
	if j.paste != nil {
		s["paste"] = j.paste.Hash()
	}
	if j.Requests.FromFile() {
		j.Requests.AddIdentity(s)
	}
	return s, nil
}

// NewSettings returns the settings of a run of samples of r alone, without a list of inputs or a
// picture to begin with: the model's identity (its fingerprint, or the name of an exact one), the
// precision, and what r has, with its recipe in canonical text. r must be complete, see
// generate.Request.Check.
func NewSettings(identity, precision string, r generate.Request) runs.Settings {
	s := runs.Settings(r.Identity())
	s["model"] = identity
	s["precision"] = precision
	return s
}

// PutFunc receives an output of a job: its index, its seed, and its file or its line.
type PutFunc = func(i int, seed uint64, data []byte) error

// MakeTexts makes texts first to first+count-1 and passes each one's line to put: byte for byte
// those in a file of lines of the run.
func (j *Job) MakeTexts(ctx context.Context, first, count int, put PutFunc) error {
	t := &Texts{j: j, each: put}
	return MakeSamples(ctx, j.part(count), []runs.Span{{First: first, N: count}}, t, Hooks{})
}

// MakePictures makes pictures first to first+count-1 and passes each one's file to put: byte for
// byte those in a folder of the run.
func (j *Job) MakePictures(ctx context.Context, first, count int, put PutFunc) error {
	p, err := j.part(count).openPictures(PictureOptions{},
		[]runs.Span{{First: first, N: count}}, put)
	if err != nil {
		return err
	}
	if j.larger != nil {
		return p.Enlarge(ctx, nil)
	}
	return MakeSamples(ctx, p.j, p.list, p, Hooks{})
}

// part returns the job of some of the samples, which need no larger batches.
func (j *Job) part(count int) *Job {
	part := *j
	part.Run.Batch = min(j.Run.Batch, count)
	return &part
}
