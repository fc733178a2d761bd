package samplers

// Acts is acts.
func (r ReMDM) Acts(step, steps int) bool { return r.acts(step, steps) }

// PsiSigma is psiSigma.
func (r ReMDM) PsiSigma(alphaS float64) float64 { return r.psiSigma(alphaS) }
