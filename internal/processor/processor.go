// Package processor reports the processor time of this process, which says more than a clock on a
// machine that others use.
package processor
