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
	Model *unmask.Model

	// Requests are those of the samples.
	Requests *unmask.RequestList

	// Run is complete. For a list of texts it has the length of the longest.
	Run generate.Options

	// request is what the samples share.
	request unmask.Request

	// outpainting is nil unless the pictures are a given one, enlarged.
	outpainting *paint.Outpainting

	// inpainting puts what is kept of a given picture back into the samples. It may be nil.
	inpainting *paint.Inpainting
}

// Prepare prepares n samples of a request or, if there are inputs, of each of them over it. batch
// is the number of samples at once, see generate.Options.
func Prepare(ctx context.Context, m *unmask.Model, r unmask.Request, inputs []unmask.Input,
	n, batch int) (*Job, error) {
	list, err := m.PrepareList(ctx, r, inputs)
	if err != nil {
		return nil, err
	}
	j := &Job{Model: m, Requests: list, request: r}
	if err := j.readPicture(); err != nil {
		return nil, err
	}
	// One request stands for all where the size of a batch is chosen and memory is checked: of a list
	// the longest, as any batch may have that.
	first := list.Prepared(0)
	if m.Text != nil && list.FromFile() {
		first, err = prepareLongest(ctx, m, r, list.Longest)
		if err != nil {
			return nil, err
		}
	}
	run := generate.Options{Request: first, N: n, Batch: batch}
	j.Run, err = run.Check(m.Denoiser)
	if err != nil {
		return j, err
	}
	err = footprint.CheckBatch(m.Denoiser, m.Backend, j.Run.Request, j.Run.Batch)
	return j, err
}

// prepareLongest prepares a request with the length of the longest text of a list, which decides
// how many samples fit at once. What says how a text ends, and what it spells, is left out: it was
// checked with each text of the list, and changes no length here.
func prepareLongest(ctx context.Context, m *unmask.Model, r unmask.Request,
	positions int) (generate.Request, error) {
	r.Length = positions - m.Spec().SpecialCount()
	r.MaxTokens = 0
	r.Canvas = 0
	r.MinLength = 0
	r.End = ""
	r.Cut = false
	r.Grammar = prompt.Grammar{}
	list, err := m.PrepareList(ctx, r, nil)
	if err != nil {
		return generate.Request{}, err
	}
	return list.Prepared(0), nil
}

// readPicture reads the picture that all samples begin with, if they need it when they end.
func (j *Job) readPicture() (err error) {
	in := j.request.Image
	switch {
	case in == nil:
	case in.Outpaint != "":
		j.outpainting, err = j.Model.Outpainting(in)
	case in.Paste:
		j.inpainting, err = j.Model.Inpainting(in)
	}
	return err
}

// RoundTripLoss returns how much the model's codes change what is kept of a picture, 0 to 255 in
// the mean: 0 if nothing is kept or it is put back.
func (j *Job) RoundTripLoss() (float64, error) {
	if j.outpainting != nil {
		return j.outpainting.RoundTripLoss()
	}
	in := j.request.Image
	if in == nil || in.Strength != 0 || j.inpainting != nil {
		return 0, nil
	}
	inpainting, err := j.Model.Inpainting(in)
	if err != nil {
		return 0, err
	}
	return inpainting.RoundTripLoss()
}

// Enlarges reports whether the samples are a given picture, enlarged, which Pictures.Enlarge makes.
func (j *Job) Enlarges() bool { return j.outpainting != nil }

// stepsTogether reports whether all samples of a batch are at the same step. Texts of a list end at
// different steps, and others take their places.
func (j *Job) stepsTogether() bool { return j.Model.Text == nil || !j.Requests.FromFile() }

// requests returns the requests of samples.
func (j *Job) requests(spans []runs.Span) iter.Seq[generate.Request] {
	return func(yield func(generate.Request) bool) {
		for _, s := range spans {
			for i := s.First; i < s.First+s.N; i++ {
				if !yield(j.Requests.Prepared(i)) {
					return
				}
			}
		}
	}
}

// withoutNumber returns an error of the loop without the number of its request, unless there is a
// list: without one all samples have the same request.
func (j *Job) withoutNumber(err error) error {
	requestErr, ok := errors.AsType[*generate.RequestError](err)
	if ok && !j.Requests.FromFile() {
		return requestErr.Err
	}
	return err
}

// Steps returns the most steps that samples take; a batch's steps count once. It is 0 if samples
// are at different steps.
func (j *Job) Steps(spans []runs.Span) int64 {
	if !j.stepsTogether() {
		return 0
	}
	batches := (CountSamples(spans) + j.Run.Batch - 1) / j.Run.Batch
	return int64(j.Run.Steps) * int64(batches)
}

// CountSamples returns the number of samples in spans.
func CountSamples(spans []runs.Span) (n int) {
	for _, s := range spans {
		n += s.N
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
	s["model"] = fingerprint
	s["precision"] = precision
	if gpu := open.KindOf(j.Model.Backend); gpu != "" {
		s["device"] = gpu
	}
	if j.outpainting != nil {
		s["outpaint"] = j.outpainting.Hash()
	}
	if j.inpainting != nil {
		s["paste"] = j.inpainting.Hash()
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
	t := &Texts{job: j, putLine: put}
	return MakeSamples(ctx, j.withSamples(count), []runs.Span{{First: first, N: count}}, t, Hooks{})
}

// MakePictures makes pictures first to first+count-1 and passes each one's file to put: byte for
// byte those in a folder of the run.
func (j *Job) MakePictures(ctx context.Context, first, count int, put PutFunc) error {
	p, err := j.withSamples(count).openPictures(PictureOptions{},
		[]runs.Span{{First: first, N: count}}, put)
	if err != nil {
		return err
	}
	if j.outpainting != nil {
		return p.Enlarge(ctx, nil)
	}
	return MakeSamples(ctx, p.job, p.missing, p, Hooks{})
}

// withSamples returns the job of some of its samples, which need no larger batches.
func (j *Job) withSamples(count int) *Job {
	smaller := *j
	smaller.Run.Batch = min(j.Run.Batch, count)
	return &smaller
}
