package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// harmless are keys of config.json on which no network's arithmetic depends: transformers' and the
// trainers' own, what is only for training, for other tasks or for a program's speed.
var harmless = strings.Fields(`
	_attn_implementation _attn_implementation_autoset _name_or_path architectures attn_implementation
	auto_map base_model_name chunk_size_feed_forward classifier_dropout custom_generate
	diffusers_version dtype experts_implementation finetuning_task id2label ignore_keys_at_rope_validation
	initializer_factor initializer_range label2id license model_type name
	num_labels output_attentions output_hidden_states output_router_logits problem_type
	return_dict return_dict_in_generate router_aux_loss_coef
	sep_token_id cls_token_id task_specific_params tokenizer_class torch_dtype torchscript
	transformers_version transformers.js_config unsloth_fixed unsloth_version use_bfloat16 use_cache
	use_return_dict gradient_checkpointing attention_dropout embedding_dropout hidden_dropout
	residual_dropout output_dropout attention_probs_dropout_prob hidden_dropout_prob mlp_dropout
	attn_pdrop embd_pdrop resid_pdrop dropout dropout_rate
	bos_token_id eos_token_id pad_token_id unk_token_id decoder_start_token_id prefix
	do_sample temperature top_k top_p typical_p repetition_penalty max_length min_length max_new_tokens
	num_beams num_beam_groups num_return_sequences length_penalty no_repeat_ngram_size
	encoder_no_repeat_ngram_size diversity_penalty early_stopping bad_words_ids forced_bos_token_id
	forced_eos_token_id begin_suppress_tokens suppress_tokens remove_invalid_values output_scores
	exponential_decay_length_penalty tf_legacy_loss tie_encoder_decoder cross_attention_hidden_size
	training unmask_recipe`)

// plain are keys that any config.json may have, with the values at which they say nothing.
var plain = map[string][]string{"quantization_config": {"{}"}, "quantization": {"{}"},
	"pruned_heads": {"{}"}, "is_encoder_decoder": {"false"}, "is_decoder": {"false"},
	"add_cross_attention": {"false"}}

// checkPlain returns an error for one of these keys with another value.
func checkPlain(src *Source) error {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(src.Config, &keys)
	for _, key := range slices.Sorted(maps.Keys(plain)) {
		if v, ok := keys[key]; ok && string(v) != "null" && !slices.Contains(plain[key], string(v)) {
			return fmt.Errorf("config.json: %s is %.60s, want null or %s: no other is computed", key, v,
				plain[key][0])
		}
	}
	return nil
}

// Unknown returns a note about the keys of config.json that are not among the known ones and not
// harmless, "" if there are none: what they say is not done.
func (s *Source) Unknown(known ...string) string {
	var keys map[string]json.RawMessage
	if json.Unmarshal(s.Config, &keys) != nil {
		return ""
	}
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if string(keys[key]) != "null" && !slices.Contains(known, key) &&
			!slices.Contains(harmless, key) && plain[key] == nil {
			unknown = append(unknown, key)
		}
	}
	if unknown == nil {
		return ""
	}
	const most = 8
	more := ""
	if len(unknown) > most {
		unknown, more = unknown[:most], " and others"
	}
	return "config.json: " + strings.Join(unknown, ", ") + more + " not known, and without effect"
}

// Keys returns the names of the fields of a struct that a config.json is decoded into.
func Keys(file any) (keys []string) {
	t := reflect.Indirect(reflect.ValueOf(file)).Type()
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			keys = append(keys, Keys(reflect.New(field.Type).Interface())...)
		} else if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			keys = append(keys, name)
		}
	}
	return keys
}
