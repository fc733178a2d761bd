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
	training unmask_answer_length unmask_recipe unmask_weights`)

// plain are keys that any config.json may have, with the value at which they say nothing.
var plain = map[string]any{
	"quantization_config": map[string]any{},
	"quantization":        map[string]any{},
	"pruned_heads":        map[string]any{},
	"is_encoder_decoder":  false,
	"is_decoder":          false,
	"add_cross_attention": false,
}

// Settings says what a network makes of the keys of one object of config.json.
type Settings struct {
	// Path is the object's, such as model.vq_model; "" for the whole file.
	Path string

	// KnownKeys, separated by blanks, are read, or shown by tensors, or change no arithmetic.
	KnownKeys string

	// RequiredValues has the keys of which the network computes one value only.
	RequiredValues map[string]any

	// UnreadKeys, separated by blanks, look as if they changed the arithmetic, but the authors' own
	// program never reads them. A note lists those that a file sets.
	UnreadKeys string
}

// CheckKeys returns an error for a key with a value that the network does not compute, and adds a
// note to s.Notes about keys that are not among those of the list and not harmless.
//
// A key that nobody here knows may be one that changes every logit. It is a note and not an error
// because most such keys are a trainer's own, and a model that runs as before must not stop doing
// so when its authors add one.
func (s *Source) CheckKeys(list ...Settings) error {
	for _, settings := range list {
		keys := s.object(settings.Path)
		understood := slices.AppendSeq(strings.Fields(settings.KnownKeys),
			maps.Keys(settings.RequiredValues))
		unread := strings.Fields(settings.UnreadKeys)
		understood = append(understood, unread...)
		s.addNote(unknownKeys(keys, settings.Path, understood))
		s.addNote(unreadKeys(keys, settings.Path, unread))
		if err := RequireValues(keys, settings.Path, settings.RequiredValues); err != nil {
			return fmt.Errorf("config.json: %w", err)
		}
	}
	return s.checkPlain()
}

// addNote adds a note that is not empty and not there yet.
func (s *Source) addNote(note string) {
	if note != "" && !slices.Contains(s.Notes, note) {
		s.Notes = append(s.Notes, note)
	}
}

// unreadKeys returns a note about those of the listed keys that an object sets, "" if there are
// none. false and null set nothing.
func unreadKeys(keys map[string]json.RawMessage, path string, listed []string) string {
	var set []string
	for _, key := range listed {
		value, ok := keys[key]
		if ok && string(value) != "null" && string(value) != "false" {
			set = append(set, joinPath(path, key))
		}
	}
	if len(set) == 0 {
		return ""
	}
	return "config.json: " + strings.Join(set, ", ") +
		": ignored, as in the authors' program, which never reads it"
}

// checkPlain returns an error if config.json has another value for a key of `plain` than the only
// one that any network here computes.
func (s *Source) checkPlain() error {
	if err := RequireValues(s.object(""), "", plain); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	return nil
}

// RequireValues returns an error for a key with another value than the one that a network computes.
// Missing keys and null have that value. path is that of the keys' object.
func RequireValues(keys map[string]json.RawMessage, path string, values map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(values)) { // so that the error is always the same one
		raw, ok := keys[key]
		if !ok || string(raw) == "null" {
			continue
		}
		var value any
		if json.Unmarshal(raw, &value) == nil && reflect.DeepEqual(value, values[key]) {
			continue
		}
		want, _ := json.Marshal(values[key])
		return fmt.Errorf("%s is %.40s, want %s: this network computes no other",
			joinPath(path, key), strings.Join(strings.Fields(string(raw)), " "), want)
	}
	return nil
}

// object returns the object of config.json at a path, nil if there is none.
func (s *Source) object(path string) (keys map[string]json.RawMessage) {
	_ = json.Unmarshal(s.Config, &keys)
	for path != "" {
		name, deeperPath, _ := strings.Cut(path, ".")
		raw := keys[name]
		keys = nil // Unmarshal would add to what is there
		_ = json.Unmarshal(raw, &keys)
		path = deeperPath
	}
	return keys
}

// joinPath returns the path of a key of the object at a path.
func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// NoteUnknownKeys returns a note about the keys of config.json that are not among the known ones
// and not harmless, "" if there are none: what they say is not done.
func (s *Source) NoteUnknownKeys(known ...string) string {
	return unknownKeys(s.object(""), "", known)
}

// unknownKeys is NoteUnknownKeys for the keys of the object at a path.
func unknownKeys(keys map[string]json.RawMessage, path string, known []string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if _, ok := plain[key]; ok || string(keys[key]) == "null" {
			continue
		}
		if !slices.Contains(known, key) && !slices.Contains(harmless, key) {
			list = append(list, joinPath(path, key))
		}
	}
	if list == nil {
		return ""
	}
	const maxListed = 8
	suffix := ""
	if len(list) > maxListed {
		list = list[:maxListed]
		suffix = " and others"
	}
	return "config.json: " + strings.Join(list, ", ") + suffix + " not known, and without effect"
}

// JSONKeys returns the keys of a struct that a config.json is decoded into, also those of structs
// embedded in it.
func JSONKeys(file any) (keys []string) {
	t := reflect.Indirect(reflect.ValueOf(file)).Type()
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			keys = append(keys, JSONKeys(reflect.New(field.Type).Interface())...)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" {
			keys = append(keys, name)
		}
	}
	return keys
}
