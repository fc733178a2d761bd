package tokenizers

import "fmt"

// stage is a normalizer, pre-tokenizer, post-processor or decoder entry; pointers tell a
// missing setting, which has a default, from a false one.
type stage struct {
	Type           string `json:"type"`
	AddPrefixSpace *bool  `json:"add_prefix_space"`
	UseRegex       *bool  `json:"use_regex"`
}

// checkPipeline wants the stages of byte-level BPE and no other.
func checkPipeline(file object) error {
	stages := map[string]*stage{}
	for _, name := range []string{"normalizer", "pre_tokenizer", "post_processor", "decoder"} {
		var s *stage
		if err := file.get(name, &s); err != nil {
			return err
		}
		stages[name] = s
	}
	if s := stages["normalizer"]; s != nil {
		return fmt.Errorf("normalizer: type %.40q, only null is supported", s.Type)
	}
	for _, name := range []string{"pre_tokenizer", "decoder"} {
		if s := stages[name]; s == nil || s.Type != "ByteLevel" {
			return fmt.Errorf("%s: type %.40q, only \"ByteLevel\" is supported", name, typeOf(s))
		}
	}
	if s := stages["post_processor"]; s != nil && s.Type != "ByteLevel" {
		return fmt.Errorf("post_processor: type %.40q, only null and \"ByteLevel\" are supported", s.Type)
	}
	pre := stages["pre_tokenizer"]
	if pre.AddPrefixSpace == nil || *pre.AddPrefixSpace {
		return fmt.Errorf("pre_tokenizer.add_prefix_space: only false is supported")
	}
	if pre.UseRegex != nil && !*pre.UseRegex {
		return fmt.Errorf("pre_tokenizer.use_regex: false, only true is supported")
	}
	return nil
}

func typeOf(s *stage) string {
	if s == nil {
		return "null"
	}
	return s.Type
}

// checkModel wants plain BPE. The unknown token is never used: text without a token is an
// error of Encode.
func checkModel(model object) error {
	kind := "BPE" // old files leave it out
	if err := model.get("type", &kind); err != nil {
		return err
	}
	if kind != "BPE" {
		return fmt.Errorf("type: %.40q, only \"BPE\" is supported", kind)
	}
	for _, name := range []string{"continuing_subword_prefix", "end_of_word_suffix"} {
		var s string
		if err := model.get(name, &s); err != nil {
			return err
		}
		if s != "" {
			return fmt.Errorf("%s: %.40q, only null is supported", name, s)
		}
	}
	for _, name := range []string{"byte_fallback", "ignore_merges"} {
		var on bool
		if err := model.get(name, &on); err != nil {
			return err
		}
		if on {
			return fmt.Errorf("%s: true, only false is supported", name)
		}
	}
	var dropout float64
	if err := model.get("dropout", &dropout); err != nil {
		return err
	}
	if dropout != 0 {
		return fmt.Errorf("dropout: %g, only null is supported", dropout)
	}
	return nil
}
