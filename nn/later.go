package nn

import (
	"cmp"
	"fmt"
	"sync"

	"unmask/backend"
	"unmask/weights"
)

// Halves are the encoder and the decoder of a codec, each packed when it is first used. A codec
// embeds it and so implements the loading methods of model.LateCodec.
type Halves struct{ encoder, decoder func() error }

// LaterHalves returns the halves whose weights are packed by these functions, see Later.
func (l *Loader) LaterHalves(name string, set *weights.Set, encoder, decoder func(*Loader)) Halves {
	return Halves{l.Later(name, set, encoder), l.Later(name, set, decoder)}
}

// LoadEncoder packs the encoder, once, and returns the error of the first call.
func (h *Halves) LoadEncoder() error { return h.encoder() }

// LoadDecoder packs the decoder, once, and returns the error of the first call.
func (h *Halves) LoadDecoder() error { return h.decoder() }

// Later returns a function that packs a part of a network when it is first called, and returns that
// call's error from then on. So an encoder takes no memory while a codec only decodes.
//
// The part is bound already: missing and misshaped tensors were errors of loading, and only values
// are read later, from set, which must stay open until then and is released from memory after that.
// name begins errors. Several goroutines may call the function at once.
func (l *Loader) Later(name string, set *weights.Set, load func(*Loader)) func() error {
	later := &Loader{Backend: l.Backend, Precision: l.Precision}
	return sync.OnceValue(func() (err error) {
		defer backend.Recover(&err)
		load(later)
		if err := cmp.Or(later.Err(), set.ReleaseAll()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}
