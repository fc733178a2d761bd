package model

import "fmt"

// CheckFinite returns an error for the first of a network's numbers that is not finite as float32.
// Weights that overflow make such numbers, and a text, a vector or a file of them looks like a
// result, so each package checks what it computed before it hands that out. what names one number.
func CheckFinite[T float32 | float64](what string, numbers []T) error {
	for i, x := range numbers {
		rounded := float32(x)
		if rounded-rounded != 0 { // true for NaN and infinities
			return fmt.Errorf("%s %d is %v, want finite numbers: the weights or the precision are unfit",
				what, i, rounded)
		}
	}
	return nil
}
