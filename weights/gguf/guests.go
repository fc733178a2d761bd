package gguf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sdar is SDAR-1.7B, -4B and -8B, whose network is Qwen3's and whose positions see their own block
// and those before it.
var sdar = family{
	kind:        "sdar",
	sizeNames:   qwenSizes,
	writeConfig: (*modelKeys).guestConfig,
	blockPrefix: dream.blockPrefix,
	tensorNames: dream.tensorNames,
	suffixes:    []string{".weight"},
}

// sdarMoE is SDAR-30B-A3B, whose network is Qwen3-MoE's.
var sdarMoE = family{
	kind:      "sdar_moe",
	sizeNames: rnd1.sizeNames,
	writeConfig: func(k *modelKeys) map[string]any {
		values := k.guestConfig()
		values["norm_topk_prob"] = true
		return values
	},
	blockPrefix: dream.blockPrefix,
	tensorNames: routedNames,
	suffixes:    []string{".weight"},
}

// a2dFamily returns dLLM's conversion of a model that wrote from left to right, to which nothing
// was added but a mask.
func a2dFamily(kind string, interleaved bool) family {
	return family{
		kind:        kind,
		interleaved: interleaved,
		sizeNames:   qwenSizes,
		writeConfig: (*modelKeys).guestConfig,
		blockPrefix: dream.blockPrefix,
		tensorNames: dream.tensorNames,
		suffixes:    dream.suffixes,
	}
}

// guestFamilies has the kinds whose files have the architecture of models that write from left to
// right. The file says with kindKey which kind it is, and without it is refused: such a model would
// load, and write nonsense. For the same reason llama.cpp, which does not read that key, runs a
// file of these as something else.
var guestFamilies = map[string][]family{
	"mistral3": {nemotron},
	"qwen2":    {wedlm, a2dFamily("a2d-qwen2", false)},
	"qwen3":    {wedlm, sdar, a2dFamily("a2d-qwen3", false)},
	"qwen3moe": {sdarMoE},
	"llama":    {a2dFamily("a2d-llama", true)},
}

// guestConfig returns the config.json of a kind whose mask and block size may be in no key of its
// authors' either: the network then finds them as it does there.
func (k *modelKeys) guestConfig() map[string]any {
	const qwenEnd = 151645 // <|im_end|>
	values := k.qwenConfig(0, qwenEnd)
	if !k.Has("tokenizer.ggml.mask_token_id") {
		delete(values, "mask_token_id")
	}
	if k.Has(blockKey) {
		values["block_size"] = k.naturalInt(blockKey)
	}
	return values
}

// guestFamily returns the kind of a file with an architecture of guestFamilies.
func (f *File) guestFamily(arch string) (family, error) {
	var names []string
	for _, guest := range guestFamilies[arch] {
		names = append(names, guest.kind)
	}
	want := strings.Join(names, " or ")
	if !f.Has(kindKey) {
		return family{}, fmt.Errorf("architecture is %s without key %s, want %s there: other models of "+
			"this architecture write from left to right", arch, kindKey, want)
	}
	kind, err := f.Text(kindKey)
	if err != nil {
		return family{}, err
	}
	for _, guest := range guestFamilies[arch] {
		if guest.kind == kind {
			return guest, nil
		}
	}
	return family{}, fmt.Errorf("key %s is %.40s, want %s with architecture %s", kindKey, kind, want,
		arch)
}

// findGuest returns the family of a kind of guestFamilies and its architecture, "" for another
// kind. hasBias says that queries have a bias: WeDLM has it with one of its two architectures.
func findGuest(kind string, hasBias func(family) bool) (arch string, match family) {
	for _, arch := range slices.Sorted(maps.Keys(guestFamilies)) {
		for _, guest := range guestFamilies[arch] {
			fits := guest.kind != wedlm.kind || hasBias(guest) == (arch == "qwen2")
			if guest.kind == kind && fits {
				return arch, guest
			}
		}
	}
	return "", family{}
}

// NoteForReaders returns a note about what other programs would make of the file, "" if they read
// it as this one does.
func (f *File) NoteForReaders() string {
	arch, err := f.Text(architectureKey)
	if err != nil || guestFamilies[arch] == nil {
		return ""
	}
	return fmt.Sprintf("llama.cpp would run this file as a %s that writes from left to right: it "+
		"does not read %s", arch, kindKey)
}
