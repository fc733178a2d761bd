package model

import (
	"fmt"
	"image"

	"unmask/backend"
)

// Codec decodes a model's codes to pictures. It owns its working memory: one call at a time.
type Codec interface {
	// Shape is that of a picture's codes, [height, width] or [n], as Spec.Shape.
	Shape() []int

	// Codes is the number of codes: they are 0..Codes-1.
	Codes() int

	// Size is that of a picture, in pixels.
	Size() (width, height int)

	// Image returns the picture of codes, one for each element of Shape.
	Image(codes []int32) (*image.NRGBA, error)

	// Decode writes the pictures [n, 3, height, width] of codes [n, ...Shape] to dst: red, green
	// and blue, 0 to 1, or a little outside where the network overshoots.
	Decode(dst []float32, codes []int32) error
}

// Encoder is a Codec that can also encode pictures.
type Encoder interface {
	Codec
	// EncodeImage returns the codes of a picture, which must have the size that Size returns.
	EncodeImage(picture image.Image) ([]int32, error)
}

// PixelEncoder is an Encoder that also encodes pictures given as numbers: from pictures [n, 3,
// height, width], colours 0 to 1, to the codes dst [n, ...Shape].
type PixelEncoder interface {
	Encoder
	Encode(dst []int32, pictures []float32) error
}

// LateCodec is an Encoder whose two halves are each loaded when they are first used, because most
// runs use one of them. LoadEncoder and LoadDecoder load a half now, which checks its weights'
// values; loading the Codec checked their names and shapes.
type LateCodec interface {
	Encoder
	LoadEncoder() error
	LoadDecoder() error
}

// PromptCodec is a Codec whose pictures depend on the prompt too.
type PromptCodec interface {
	Codec

	// ImageOf and DecodeOf are Image and Decode for codes that were drawn with a prompt, which may be
	// nil.
	ImageOf(codes []int32, p *Prompt) (*image.NRGBA, error)
	DecodeOf(dst []float32, codes []int32, p *Prompt) error
}

// CodecFormat is one published codec. It is registered apart from the networks that make its codes,
// because several of them may share it.
type CodecFormat struct {
	Name string

	// Match decides by config.json and tensor names.
	Match func(src *Source) bool

	Load func(src *Source, o Options) (Codec, error)
}

var codecs []*CodecFormat

// RegisterCodec adds a codec's format; codecs call it from init.
func RegisterCodec(f CodecFormat) { codecs = append(codecs, &f) }

// LoadCodec loads only the codec of a model's files, not the network. A LateCodec loads its halves
// when they are used. Files of no known codec are an error.
func LoadCodec(src *Source, o Options) (Codec, error) {
	f := codecFormat(src)
	if f == nil {
		return nil, fmt.Errorf("%s: neither config.json nor the tensors' names are those of a known "+
			"codec of pictures", src.Name)
	}
	return f.load(src, o)
}

// InspectCodec describes the codec of a model's files. It loads the codec, which checks every
// weight.
func InspectCodec(src *Source, o Options) (Info, error) {
	parameters := Parameters(src.Set.Names(), src.Set) // before LoadCodec releases them
	c, err := LoadCodec(src, o)
	if err != nil {
		return Info{}, err
	}
	if late, ok := c.(LateCodec); ok {
		if err := late.LoadDecoder(); err != nil {
			return Info{}, err
		}
		if err := late.LoadEncoder(); err != nil {
			return Info{}, err
		}
	}
	width, height := c.Size()
	return Info{
		Architecture: codecFormat(src).Name + ", a codec of pictures",
		Parameters:   parameters,
		Sizes: map[string]int{
			"codes":     c.Codes(),
			"positions": Spec{Shape: c.Shape()}.Length(),
			"width":     width,
			"height":    height,
		},
		Notes: src.Notes,
	}, nil
}

// codecFormat returns the format of a model's codec, nil if none matches.
func codecFormat(src *Source) *CodecFormat {
	for _, f := range codecs {
		if f.Match(src) {
			return f
		}
	}
	return nil
}

// loadDecoder is load with the decoder's weights: a model that is about to draw should not find out
// afterwards that they are bad.
func (f *CodecFormat) loadDecoder(src *Source, o Options) (Codec, error) {
	c, err := f.load(src, o)
	if late, ok := c.(LateCodec); ok && err == nil {
		err = late.LoadDecoder()
	}
	return c, err
}

// load builds the codec and then releases the weights from memory.
func (f *CodecFormat) load(src *Source, o Options) (_ Codec, err error) {
	defer backend.Recover(&err)
	c, err := f.Load(src, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", src.Name, f.Name, err)
	}
	return c, src.Set.ReleaseAll()
}
