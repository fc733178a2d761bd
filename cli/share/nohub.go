//go:build nofleet

package share

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/fleet"
)

// Hub has no flags: this build has no NATS.
type Hub struct{}

// Register does nothing.
func (*Hub) Register(*pflag.FlagSet) {}

// Enabled reports false.
func (*Hub) Enabled() bool { return false }

// Check does nothing.
func (*Hub) Check(*pflag.FlagSet, *Shard, bool, string) error { return nil }

func (*Hub) runHub(context.Context, string, string, Spec, fleet.Run) error {
	return errors.New("this build has no NATS: it was made with the tag nofleet")
}

// KeepOpen does nothing.
func (*Hub) KeepOpen(bool) {}

// Close does nothing.
func (*Hub) Close() error { return nil }

// WorkerCommands returns none.
func WorkerCommands(BuildFunc) []*cobra.Command { return nil }
