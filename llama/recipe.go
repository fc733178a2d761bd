package llama

// recipe returns the run that the model was published with.
func (c *Config) recipe() string { return "" }
