package unmask

import (
	"context"
	"strings"

	"unmask/weights/hub"
)

// companions are the repositories of networks that a published one needs beside its own, by the
// folder that would have them. Each is found by its name on the hub where the folder is not there.
var companions = map[string]map[string]string{
	"yucornetto/generator_titok_l32_imagenet": {
		"codec": "yucornetto/tokenizer_titok_l32_imagenet"},
	"yucornetto/generator_titok_b64_imagenet": {
		"codec": "yucornetto/tokenizer_titok_b64_imagenet"},
	"yucornetto/generator_titok_s128_imagenet": {
		"codec": "yucornetto/tokenizer_titok_s128_imagenet"},
	"turkeyju/generator_maskgen_vq_l":  ofMaskGen,
	"turkeyju/generator_maskgen_vq_xl": ofMaskGen,
}

var ofMaskGen = map[string]string{"codec": "turkeyju/tokenizer_tatitok_bl128_vq",
	"text_encoder": "openai/clip-vit-large-patch14-336"}

// Companions returns the names on the hub of what a published model needs beside its own
// repository, such as the image tokenizer of a generator; none for most.
func Companions(name string) (list []string) {
	for _, folder := range []string{"codec", "text_encoder"} {
		if repo := companionOf(name, folder); repo != "" {
			list = append(list, repo)
		}
	}
	return list
}

// companionOf returns the repository that has a folder of a model org/name[@revision].
func companionOf(name, folder string) string {
	repo, _, _ := strings.Cut(name, "@")
	return companions[repo][folder]
}

// elsewhere finds folders of a model among its companions. They are downloaded when they are first
// needed, whatever became of ctx then.
func elsewhere(ctx context.Context, name string,
	progress func(hub.Progress)) func(folder string) (string, error) {
	ctx = context.WithoutCancel(ctx)
	return func(folder string) (string, error) {
		repo := companionOf(name, folder)
		if repo == "" {
			return "", nil
		}
		return hub.PullModel(ctx, repo, progress)
	}
}
