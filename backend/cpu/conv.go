package cpu

type conv struct{}

func (c *conv) init(*Backend) {}
