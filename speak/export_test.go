package speak

// Held returns the samples of parts that are not finished yet.
func (s *Speech) Held() (samples int) {
	for _, part := range s.rawParts {
		samples += len(part)
	}
	return samples
}
