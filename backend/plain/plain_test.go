package plain_test

import (
	"testing"

	"unmask/backend/backendtest"
	"unmask/backend/plain"
)

// The reference passes the suite itself: its requirements, such as for rows without a distribution,
// must hold here too.
func TestDevice(t *testing.T) { backendtest.Run(t, plain.New) }
