package server

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ollama returns a model as GET /api/tags and /api/ps have it.
func (m *servedModel) ollama() map[string]any {
	size, device := 4*m.Info.Parameters, 0 // bytes in float32
	if m.device != "cpu" {
		device = size
	}
	made := time.Unix(m.created, 0).UTC()
	return map[string]any{"name": m.name, "model": m.name, "size": size, "size_vram": device,
		"digest": m.identity, "modified_at": made, "expires_at": made.AddDate(100, 0, 0),
		"context_length": m.spec.Length(), "details": map[string]any{"parent_model": "",
			"format": "unmask", "family": m.family(), "families": []string{m.family()},
			"parameter_size":     fmt.Sprintf("%.1fM", float64(m.Info.Parameters)/1e6),
			"quantization_level": m.precision}}
}

func (m *servedModel) family() string {
	return strings.ToLower(cmp.Or(m.Info.Architecture, "unmask"))
}

// ollamaTags answers GET /api/tags and /api/ps: the models of text and those that embed texts. All
// stay loaded.
func (s *Server) ollamaTags(*http.Request) (any, *Fault) {
	list := []any{}
	for _, m := range s.all() {
		if m.rank(wantsVectors) >= 0 {
			list = append(list, m.ollama())
		}
	}
	return map[string]any{"models": list}, nil
}

// ollamaShow answers POST /api/show.
func (s *Server) ollamaShow(f *fields) (any, *Fault) {
	f.rename("name", "model") // as older clients call it
	f.latest()
	f.flag("verbose")
	m := s.model(f, wantsVectors)
	if fault := f.end(); fault != nil {
		return nil, fault
	}
	can := []string{"completion"}
	if m.Text == nil {
		can[0] = "embedding"
	} else if m.spec.Block == 0 && m.spec.Causal == 0 { // what follows a hole can be given
		can = append(can, "insert")
	}
	if m.chat != nil {
		if _, calls := m.chat.CallForm(); calls {
			can = append(can, "tools")
		}
	}
	out := m.ollama()
	for _, name := range []string{"modelfile", "template", "license", "parameters"} {
		out[name] = ""
	}
	out["capabilities"], out["model_info"] = can, map[string]any{"general.architecture": m.family(),
		"general.basename": m.name, "general.parameter_count": m.Info.Parameters,
		m.family() + ".context_length": m.spec.Length()}
	return out, nil
}
