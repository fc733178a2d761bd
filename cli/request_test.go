package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask"
	"unmask/cli/flags"
	"unmask/demo"
	"unmask/generate"
	"unmask/internal/wording"
	"unmask/testkit/requesttest"
)

// arguments returns the flags of a request, whose names are those of its JSON. Its messages go into
// a file of dir.
func arguments(t require.TestingT, dir string, r unmask.Request) (args []string) {
	add := func(name string, value any) {
		args = append(args, fmt.Sprintf("--%s=%v", strings.ReplaceAll(name, "_", "-"), value))
	}
	if in := r.Image; in != nil && in.Strength != 0 {
		add("init", in.File)
		add("strength", in.Strength)
		add("fit", in.Fit)
	} else if in != nil {
		for name, value := range map[string]string{"inpaint": in.File, "mask": in.MaskFile,
			"box": in.Box, "fit": in.Fit} {
			if value != "" {
				add(name, value)
			}
		}
	}
	if r.Messages != nil {
		name := filepath.Join(dir, "messages.json")
		require.NoError(t, os.WriteFile(name, r.Messages, 0o666))
		add("messages", name)
	}
	r.Image, r.Messages = nil, nil
	for name, value := range jsonFields(t, r) {
		list, several := value.([]any)
		if !several {
			list = []any{value}
		}
		for _, one := range list {
			add(name, one)
		}
	}
	return args
}

func jsonFields(t require.TestingT, r unmask.Request) (fields map[string]any) {
	data, err := json.Marshal(r)
	require.NoError(t, err)
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a seed has 64 bits
	require.NoError(t, d.Decode(&fields))
	return fields
}

// The flags of unmask text and unmask image prepare what a request does.
func TestFlagsPrepareTheSame(t *testing.T) {
	text, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	picture, err := unmask.LoadFS(demo.Image(), "demo", unmask.Options{})
	require.NoError(t, err)
	chat, err := unmask.LoadFS(demo.Chat(), "demo", unmask.Options{})
	require.NoError(t, err)
	dir, files := t.TempDir(), requesttest.NewFiles(t)
	same := func(t *rapid.T, m *unmask.Model, r unmask.Request, got generate.Request, refused error) {
		want, wrong := m.Prepare(t.Context(), r)
		if wrong != nil || refused != nil {
			require.Equal(t, wrong != nil, refused != nil, "%v, %v", wrong, refused)
			return
		}
		requesttest.RequireSame(t, want, nil, got, nil)
	}
	type flags = *pflag.FlagSet
	read := func(set flags, args []string, overrides func(flags) (generate.Overrides, error),
		check func(flags) error) (generate.Overrides, error) {
		if err := set.Parse(args); err != nil {
			return nil, err
		}
		over, err := overrides(set)
		if err != nil {
			return nil, err
		}
		return over, check(set)
	}
	ofText := func(t *rapid.T, m *unmask.Model, r unmask.Request) {
		// these have no flags
		r.Suffix, r.MaxTokens, r.Tokens, r.Index, r.Tools, r.Calls = "", 0, nil, 0, nil, nil
		var f textFlags
		set := f.command().Flags()
		over, err := read(set, arguments(t, dir, r), f.readOverrides,
			func(s flags) error { return f.Text.Check(t.Context(), s) })
		var q generate.Request
		if err == nil {
			filled, failed := f.buildRequest(m, over)
			require.NoError(t, failed)
			q, err = m.Prepare(t.Context(), filled)
		}
		same(t, m, r, q, err)
	}
	t.Run("text", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { ofText(t, text, requesttest.DrawText(t, text.Spec().Mask)) })
	})
	t.Run("chat", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { ofText(t, chat, requesttest.DrawChat(t)) })
	})
	t.Run("image", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			r := requesttest.DrawPicture(t, files)
			r.Index = 0
			var f imageFlags
			set := f.command().Flags()
			over, err := read(set, arguments(t, dir, r), f.readOverrides, f.Picture.Check)
			var q generate.Request
			if err == nil {
				filled, inputs, failed := f.Request(picture, over)
				require.NoError(t, failed)
				require.Empty(t, inputs)
				filled.Seed = f.seed
				q, err = picture.Prepare(t.Context(), filled)
			}
			same(t, picture, r, q, err)
		})
	})
}

// The exit status of a refused command line does not depend on the words of the refusal.
func TestStatusesHaveNoWords(t *testing.T) {
	embedDemos()
	t.Chdir(t.TempDir())
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 64, 64))))
	require.NoError(t, os.WriteFile("given.png", picture.Bytes(), 0o666))
	for name, text := range map[string]string{"seed.jsonl": `{"prompt": "day", "seed": 5}`,
		"both.jsonl": `{"prompt": "a", "infill": "b[1]"}`, "long.jsonl": `{"infill": "b[999]"}`,
		"noon.txt": "noon"} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
	}
	run := func(line string) (status int) {
		root := newRoot()
		root.SetArgs(joinCacheCount(strings.Fields(line)))
		switch err := root.Execute(); {
		case err == nil:
			return 0
		case errors.Is(err, flags.ErrUsage):
			return 2
		}
		return 1
	}
	for line, status := range map[string]int{
		"text --steps 0": 2, "text --steps 1 --sampler semi-ar(block=4) --length 9": 2,
		"text --length 999": 2, "text --length 0x": 2, "text --infill a": 2,
		"text --infill a[9999]": 2, "text --prompt a --infill b[1]": 2,
		"text --sampler none": 2, "text --alpha 3 --sampler random": 2,
		"text --ban 99999": 2, "text --bias 3": 2, "text --min-length 999 --end 3": 2,
		"text --preset none": 2, "text --reuse dual --sampler moment": 2,
		"text --messages none": 1, "text --prompts both.jsonl": 1, "text --prompts long.jsonl": 1,
		"text --prompts none": 1, "text --schedule none": 2,
		"text --shard 3/2 --out x.jsonl": 2, "text --regex (": 2, "text --precision f99": 2,
		"image --class noon": 2, "image --class day --class noon": 2, "image --prompt a": 2,
		"image --negative b": 2, "image --guidance -1": 2, "image --preset fid": 2,
		"image --ban grass":          2,
		"image --prompts seed.jsonl": 2, "image --prompts noon.txt": 2,
		"image --inpaint none.png --box 0,0,8,8": 1, "image --inpaint given.png": 1,
		"image --inpaint given.png --box 0,0,8,99": 1,
		"image --inpaint given.png --box 0":        2, "image --fit squeeze --init given.png": 2,
		"image --inpaint given.png --outpaint up=3": 2,
		"image --init given.png --strength 0":       2, "image --outpaint left=3": 2,
		"sweep none.yaml": 1, "worker --join none": 2,
	} {
		require.Equal(t, status, run(line), line)
		restore := wording.Replace("other words")
		got := run(line)
		restore()
		require.Equal(t, status, got, "%s, in other words", line)
	}
}
