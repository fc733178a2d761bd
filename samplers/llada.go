package samplers

import "math"

// LLaDA opens length/steps positions per step, and one more in the first length%steps steps (Nie et
// al. 2025, get_num_transfer_tokens of the authors' generate.py).
var LLaDA Schedule = &formula{"llada", func(step float64, steps, length int) int {
	n := int(step)
	return n*(length/steps) + min(n, length%steps)
}}

// DLLM opens round(masked/left) positions in a step, where `left` steps are left, halves to even
// (dLLM, core/samplers/utils.py get_num_transfer_tokens with LinearAlphaScheduler: the share
// 1-s/t of the masked positions, with times in float32).
var DLLM Schedule = &formula{"dllm", func(step float64, steps, length int) int {
	masked := length
	for left := steps; left > max(steps-int(step), 0); left-- {
		share := maskShare(left-1, steps) / maskShare(left, steps) // that stays masked
		masked -= min(int(math.RoundToEven(float64(masked)*(1-float64(share)))), masked)
	}
	return length - masked
}}

// maskShare returns the share of masks at the time of step `left` from the end, 1-(1-t).
func maskShare(left, steps int) float32 {
	alpha := 1 - float32(float64(left)/float64(steps))
	return 1 - alpha
}

// Floor leaves floor(D*(N-n)/N) positions masked after step n, in float32: RND1's number
// (generation_utils.py of the authors) and Open-dCoder's for p2.
var Floor Schedule = &formula{"floor", func(step float64, steps, length int) int {
	share := float32((float64(steps) - step) / float64(steps))
	return length - int(float32(length)*share)
}}

// Dream opens int(masked*(1-s/t)) positions in a step from time t to s and all the rest in the last
// step; times run from 1 to 0.001 in equal parts, in float32. Many steps open none (Ye et al. 2025,
// "Dream 7B: diffusion large language models", diffusion_generate).
var Dream Schedule = &idleFormula{formula{"dream", func(step float64, steps, length int) int {
	masked := length
	for i := range min(int(step), steps) {
		if i == steps-1 {
			return length
		}
		t := dreamTime(i, steps)
		s := dreamTime(i+1, steps)
		masked -= int(float32(masked) * float32(1-s/t))
	}
	return length - masked
}}}

// dreamTime returns torch.linspace(1, 0.001, steps+1)[i], which is computed from the nearer end.
func dreamTime(i, steps int) float32 {
	const end = 1e-3
	step := (float32(end) - 1) / float32(steps)
	if i < (steps+1)/2 {
		return 1 + float32(step*float32(i))
	}
	return float32(end) - float32(step*float32(steps-i))
}
