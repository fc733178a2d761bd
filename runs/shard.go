package runs

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"unmask/internal/durable"
	"unmask/param"
)

// Shard is part I of N of a run that N machines make independently. Its outputs are contiguous. The
// zero value is the whole run.
type Shard struct{ I, N int }

// maxShards is the largest N.
const maxShards = 1 << 20

// ParseShard parses i/n, with i from 0 to n-1; "" is the whole run. "auto" is the task of a Slurm
// array or the pod of a Kubernetes Indexed Job, read with getenv: SLURM_ARRAY_TASK_ID, _MIN, _STEP
// and _COUNT, or JOB_COMPLETION_INDEX with UNMASK_SHARDS. If only some tasks of an array are
// submitted again, UNMASK_SHARDS is the original number of tasks; ids then begin at 0.
func ParseShard(text string, getenv func(string) string) (Shard, error) {
	if text == "" {
		return Shard{}, nil
	}
	if text != "auto" {
		i, n, ok := strings.Cut(text, "/")
		if s, valid := shardOf(i, n); ok && valid {
			return s, nil
		}
		return Shard{}, &param.Error{Name: "shard", Found: param.Quote(text),
			Want: "i/n with i from 0 to n-1, or auto"}
	}
	if getenv == nil {
		getenv = os.Getenv
	}
	i, n := getenv("JOB_COMPLETION_INDEX"), getenv("UNMASK_SHARDS")
	if id := getenv("SLURM_ARRAY_TASK_ID"); id != "" {
		if i = id; n == "" {
			var err error
			if i, n, err = slurm(getenv); err != nil {
				return Shard{}, err
			}
		}
	}
	if i == "" || n == "" {
		return Shard{}, &param.Error{Name: "shard", Found: "auto", Want: "a Slurm array " +
			"(SLURM_ARRAY_TASK_ID, _MIN and _COUNT) or an Indexed Job (JOB_COMPLETION_INDEX and " +
			"UNMASK_SHARDS)"}
	}
	if s, valid := shardOf(i, n); valid {
		return s, nil
	}
	return Shard{}, &param.Error{Name: "shard", Want: "i/n with i from 0 to n-1",
		Found: fmt.Sprintf("auto, which is %s/%s here", i, n)}
}

// slurm returns this task's index in its array and the number of tasks.
func slurm(getenv func(string) string) (i, n string, err error) {
	step := cmp.Or(getenv("SLURM_ARRAY_TASK_STEP"), "1")
	var number [3]int
	for k, name := range []string{"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN"} {
		if number[k], err = strconv.Atoi(getenv(name)); err != nil {
			return "", "", &param.Error{Name: name, Found: param.Quote(getenv(name)),
				Want: "a whole number"}
		}
	}
	if number[2], err = strconv.Atoi(step); err != nil || number[2] < 1 {
		return "", "", &param.Error{Name: "SLURM_ARRAY_TASK_STEP", Found: param.Quote(step),
			Want: "a whole number from 1"}
	}
	return strconv.Itoa((number[0] - number[1]) / number[2]), getenv("SLURM_ARRAY_TASK_COUNT"), nil
}

// shardOf returns shard i/n, and whether there is one.
func shardOf(i, n string) (s Shard, valid bool) {
	at, err := strconv.Atoi(i)
	of, other := strconv.Atoi(n)
	return Shard{at, of}, cmp.Or(err, other) == nil && of <= maxShards && at >= 0 && at < of
}

// Whole reports whether the shard is all of a run.
func (s Shard) Whole() bool { return s.N == 0 }

// Range returns the outputs of the shard among n: from first to end-1. The sizes of shards differ
// by at most one.
func (s Shard) Range(n int) (first, end int) {
	if s.Whole() {
		return 0, n
	}
	at := func(i int) int { return int(int64(n) * int64(i) / int64(s.N)) }
	return at(s.I), at(s.I + 1)
}

// part returns the shard of a run of n outputs, for the manifest.
func (s Shard) part(n int) *durable.Range {
	if s.Whole() {
		return nil
	}
	first, end := s.Range(n)
	return &durable.Range{First: first, Count: end - first, Of: n}
}

// OpenFolder opens, begins or continues in dir a run of n outputs, or a shard of one. Files are
// numbered as in the whole run; unlike a whole run, a shard cannot be continued with another n. The
// directory that holds the shards is made where it is missing.
func OpenFolder(dir string, s Settings, shard Shard, n int) (*Folder, error) {
	if err := shard.makePlace(dir); err != nil {
		return nil, err
	}
	return durable.OpenFolder(durable.OS{}, dir, ending, s, shard.part(n))
}

// makePlace makes the directory that holds the shard at name, and other shards.
func (s Shard) makePlace(name string) error {
	if s.Whole() {
		return nil
	}
	return os.MkdirAll(filepath.Dir(filepath.Clean(name)), 0o777)
}

// OpenLines opens, begins or continues a run in the file name, see OpenFolder.
func OpenLines(name string, s Settings, shard Shard, n int) (*Lines, error) {
	if err := shard.makePlace(name); err != nil {
		return nil, err
	}
	return durable.OpenLines(durable.OS{}, name, s, shard.part(n))
}
