package unmask

import (
	"context"
	"strings"

	"unmask/weights/hub"
)

// companions maps a model on the hub to the repositories of the other networks that it needs, by
// the folder of the model that would hold each. They are used where that folder is missing.
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

// Companions returns the hub names of the other repositories that a published model needs, such as
// a generator's image tokenizer. Most models need none.
func Companions(name string) (list []string) {
	for _, folder := range []string{"codec", "text_encoder"} {
		if repo := companionOf(name, folder); repo != "" {
			list = append(list, repo)
		}
	}
	return list
}

// companionOf returns the repository that stands for a folder of the model org/name[@revision].
func companionOf(name, folder string) string {
	repo, _, _ := strings.Cut(name, "@")
	return companions[repo][folder]
}

// elsewhere returns a function that finds a model's missing folders among its companions. It
// downloads a companion when it is first needed, even after ctx is cancelled.
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
