package bench

// images is ViT20, one sequence and eight.
func images() []Measurement {
	var out []Measurement
	for _, p := range precisions {
		out = append(out,
			Measurement{"forward/vit20/" + p.String(), func(s *Suite) (work, error) { return s.forward("vit20", p, 1) }},
			Measurement{"forward/vit20x8/" + p.String(), func(s *Suite) (work, error) { return s.forward("vit20", p, 8) }})
	}
	return out
}
