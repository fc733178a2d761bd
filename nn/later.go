package nn

import (
	"cmp"
	"sync"

	"unmask/backend"
	"unmask/param"
	"unmask/weights"
)

// Halves are the encoder and the decoder of a codec, each packed when it is first used. A codec
// embeds it and so implements the loading methods of model.LateCodec.
type Halves struct{ encoder, decoder func() error }

// LazyHalves returns the halves whose weights these functions pack when a half is first loaded;
// the error of that call is returned from then on. So an encoder takes no memory while a codec only
// decodes.
//
// The halves are bound already: missing and misshaped tensors were errors of loading, and only
// values are read later, from set, which must stay open until then and is released from memory
// after that. name begins errors. Several goroutines may load the halves at once.
func (l *Loader) LazyHalves(name string, set *weights.Set, encoder, decoder func(*Loader)) Halves {
	loadOnce := func(pack func(*Loader)) func() error {
		half := &Loader{Backend: l.Backend, Precision: l.Precision} // with an error of its own
		return sync.OnceValue(func() (err error) {
			defer backend.Recover(&err)
			pack(half)
			releaseErr := set.ReleaseAll()
			return param.AtPlace(name, cmp.Or(half.Err(), releaseErr))
		})
	}
	return Halves{encoder: loadOnce(encoder), decoder: loadOnce(decoder)}
}

// LoadEncoder packs the encoder, once, and returns the error of the first call.
func (h *Halves) LoadEncoder() error { return h.encoder() }

// LoadDecoder packs the decoder, once, and returns the error of the first call.
func (h *Halves) LoadDecoder() error { return h.decoder() }
