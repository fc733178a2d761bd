package server

import (
	"bytes"
	"encoding/json"
	"slices"
)

// neutralFields are fields of OpenAI, vLLM, llama.cpp and Ollama that unmask lacks, with the values
// that change no answer; any other value is refused by name. Where there are no values the field
// changes no answer, whatever it is: it is about that server's memory, logs or timing, or about
// another of these fields. docs/serving.md has the same table.
var neutralFields = []struct {
	values []string
	names  []string
}{
	{nil, []string{"cache_prompt", "cache_salt", "dry_allowed_length", "dry_base",
		"dry_penalty_last_n", "dry_sequence_breakers", "dynatemp_exponent", "f16_kv",
		"guided_decoding_backend", "guided_whitespace_pattern", "id_slot", "include_reasoning",
		"keep_alive", "kv_transfer_params", "logits_all", "low_vram", "main_gpu", "mirostat_eta",
		"mirostat_tau", "num_batch", "num_ctx", "num_gpu", "num_keep", "num_thread", "numa",
		"parse_tool_calls", "penalize_newline", "prompt_cache_options", "prompt_cache_retention",
		"reasoning_format", "repeat_last_n", "request_id", "return_progress",
		"spaces_between_special_tokens", "timings_per_token", "use_mlock", "use_mmap", "vocab_only",
		"xtc_threshold"}},
	{[]string{"0"}, []string{"dry_multiplier", "dynatemp_range", "frequency_penalty", "min_keep",
		"min_p", "min_tokens", "mirostat", "n_discard", "n_keep", "n_probs", "presence_penalty",
		"t_max_predict_ms", "xtc_probability"}},
	{[]string{"1"}, []string{"best_of", "length_penalty", "repeat_penalty", "repetition_penalty",
		"tfs_z", "typ_p", "typical_p"}},
	{[]string{"-1"}, []string{"n_predict", "top_n_sigma"}},
	{[]string{"false"}, []string{"continue_final_message", "echo", "ignore_eos",
		"include_stop_str_in_output", "post_sampling_probs", "return_token_ids", "return_tokens",
		"return_tokens_as_token_ids", "thinking_forced_open", "use_beam_search"}},
	{[]string{"true"}, []string{"add_generation_prompt", "skip_special_tokens"}},
	{[]string{"[]"}, []string{"allowed_token_ids", "bad_words", "documents", "functions",
		"image_data", "logits_processors", "lora", "stop_token_ids"}},
	{[]string{`""`}, []string{"chat_template", "grammar", "guided_grammar"}},
	{[]string{`"auto"`}, []string{"chat_template_content_format"}},
	{[]string{`"medium"`}, []string{"verbosity"}},
	{[]string{`"none"`}, []string{"reasoning_effort"}},
	{[]string{`["text"]`}, []string{"modalities"}},
	{[]string{}, []string{"audio", "function_call", "mm_processor_kwargs", "prediction",
		"prompt_logprobs", "structural_tag", "thinking_token_budget", "truncate_prompt_tokens",
		"vllm_xargs", "web_search_options"}},
}

// placeholders are values by which clients of those servers leave a field open that unmask has.
var placeholders = map[string][]string{
	"top_k":                 {"0", "-1"},
	"max_tokens":            {"-1"},
	"max_completion_tokens": {"-1"},
	"n":                     {"null"},
	"priority":              {"0"},
	"stop":                  {`""`, "[]"},
}

// dropPlaceholders removes the fields that are left open.
func (f *fields) dropPlaceholders() {
	for name, values := range placeholders {
		if slices.Contains(values, string(f.object[name])) {
			delete(f.object, name)
		}
	}
}

// requireNeutralFields refuses fields of other servers unless they change nothing. Fields that the
// route has read already mean something there.
func (f *fields) requireNeutralFields() {
	for _, group := range neutralFields {
		for _, name := range group.names {
			if group.values == nil {
				f.accept(name)
			} else if !f.isKnown[name] {
				f.requireNeutral(name, group.values...)
			}
		}
	}
}

// compactJSON returns JSON without spaces.
func compactJSON(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return string(raw)
	}
	return out.String()
}
