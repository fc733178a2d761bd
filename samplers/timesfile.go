package samplers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"unmask/internal/atomicfile"
)

// timesFile is the JSON of a schedule's file.
type timesFile struct {
	Times []float64 `json:"times"` // after each step, from below 1 to 0
}

// maxTimesFile is the largest file of a schedule in bytes.
const maxTimesFile = 1 << 20

// MarshalTimes returns the file for times, such as those of JYS, that OpenTimes reads.
func MarshalTimes(times []float64) ([]byte, error) {
	data, err := json.Marshal(timesFile{times})
	return append(data, '\n'), err
}

// OpenTimes reads the schedule in a file.
func OpenTimes(name string) (Schedule, error) {
	in, err := atomicfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	s, err := readTimes(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func readTimes(in io.Reader) (Schedule, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxTimesFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxTimesFile {
		return nil, fmt.Errorf("more than %d bytes", maxTimesFile)
	}
	var f timesFile
	if err := json.Unmarshal(data, &f); err != nil || len(f.Times) == 0 {
		return nil, errors.New("the file is no schedule, want {\"times\":[...]} as unmask schedule writes")
	}
	return Times(f.Times)
}
