package plain_test

import (
	"testing"

	"unmask/backend/backendtest"
	"unmask/backend/plain"
)

// The reference against itself: what the suite demands, such as the treatment of rows
// without a distribution, must hold here as well.
func TestDevice(t *testing.T) { backendtest.Run(t, plain.New) }
