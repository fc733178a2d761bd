// Package weights reads and writes model weights and binds them to networks.
//
// A [Set] is the tensors of one model by name. [Open] maps a safetensors file, or a directory with
// one, whole or in shards. [Bind] assigns every tensor to the [Param] whose struct tags have its
// name, and reports all missing, unexpected and misshaped tensors in one error.
//
// Files are not trusted: a header is checked strictly before the safetensors library decodes it,
// and every size is compared with the file's before anything is allocated. A file that shrinks
// while it is mapped gives an error, as long as its bytes are read through a Tensor's methods.
//
// Weights stay in the mapped file until a network packs them for its device, so a model of many
// gigabytes is loaded without a second copy of it in memory.
package weights
