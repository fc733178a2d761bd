// Package weights reads and writes model weights and binds them to networks.
//
// A [Set] is the tensors of one model by name. [Open] maps a safetensors file
// or a directory that holds one, whole or in shards. [Bind] hands every tensor
// to the [Param] whose struct tags spell its name and reports all that is
// missing, unexpected or misshaped in one error.
//
// Files are not trusted: a header is checked strictly, every size against the
// real file, before anything is allocated, and a file that shrinks while it is
// mapped ends in an error, as long as its bytes are read through a Tensor's
// methods.
package weights
