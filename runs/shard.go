package runs

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"

	"unmask/param"
)

// Shard is part I of N of a run that N machines make independently. Its outputs are contiguous. The
// zero value is the whole run.
type Shard struct {
	I int
	N int
}

// maxShards is the largest N.
const maxShards = 1 << 20

// ParseShard parses i/n, with i from 0 to n-1; "" is the whole run. "auto" is the task of a Slurm
// array or the pod of a Kubernetes Indexed Job, read with getenv: SLURM_ARRAY_TASK_ID, _MIN, _STEP
// and _COUNT, or JOB_COMPLETION_INDEX with UNMASK_SHARDS. If only some tasks of an array are
// submitted again, UNMASK_SHARDS is the original number of tasks; ids then begin at 0.
//
// A nil getenv is os.Getenv. Errors are of type *param.Error.
func ParseShard(text string, getenv func(string) string) (Shard, error) {
	if text == "" {
		return Shard{}, nil
	}
	if text == "auto" {
		if getenv == nil {
			getenv = os.Getenv
		}
		return shardFromEnvironment(getenv)
	}

	i, n, hasSlash := strings.Cut(text, "/")
	if shard, ok := newShard(i, n); hasSlash && ok {
		return shard, nil
	}
	return Shard{}, &param.Error{
		Name:  "shard",
		Found: param.Quote(text),
		Want:  "i/n with i from 0 to n-1, or auto",
	}
}

// shardFromEnvironment returns the shard of this Slurm task or Kubernetes pod.
func shardFromEnvironment(getenv func(string) string) (Shard, error) {
	i := getenv("JOB_COMPLETION_INDEX")
	n := getenv("UNMASK_SHARDS")
	if id := getenv("SLURM_ARRAY_TASK_ID"); id != "" {
		i = id
		if n == "" {
			var err error
			i, n, err = slurmTask(getenv)
			if err != nil {
				return Shard{}, err
			}
		}
	}

	if i == "" || n == "" {
		return Shard{}, &param.Error{
			Name:  "shard",
			Found: "auto",
			Want: "a Slurm array " +
				"(SLURM_ARRAY_TASK_ID, _MIN and _COUNT) or an Indexed Job (JOB_COMPLETION_INDEX and " +
				"UNMASK_SHARDS)",
		}
	}
	if shard, ok := newShard(i, n); ok {
		return shard, nil
	}
	return Shard{}, &param.Error{
		Name:  "shard",
		Want:  "i/n with i from 0 to n-1",
		Found: fmt.Sprintf("auto, which is %s/%s here", i, n),
	}
}

// slurmTask returns this task's index in its array and the number of tasks. Task ids need not begin
// at 0 or be contiguous: those of --array=5-25:10 are 5, 15 and 25.
func slurmTask(getenv func(string) string) (i, n string, err error) {
	id, err := environmentInt(getenv, "SLURM_ARRAY_TASK_ID")
	if err != nil {
		return "", "", err
	}
	first, err := environmentInt(getenv, "SLURM_ARRAY_TASK_MIN")
	if err != nil {
		return "", "", err
	}
	stepText := cmp.Or(getenv("SLURM_ARRAY_TASK_STEP"), "1")
	step, err := strconv.Atoi(stepText)
	if err != nil || step < 1 {
		return "", "", &param.Error{
			Name:  "SLURM_ARRAY_TASK_STEP",
			Found: param.Quote(stepText),
			Want:  "a whole number from 1",
		}
	}
	return strconv.Itoa((id - first) / step), getenv("SLURM_ARRAY_TASK_COUNT"), nil
}

// environmentInt reads a variable that must be a whole number.
func environmentInt(getenv func(string) string, name string) (int, error) {
	number, err := strconv.Atoi(getenv(name))
	if err != nil {
		return 0, &param.Error{Name: name, Found: param.Quote(getenv(name)), Want: "a whole number"}
	}
	return number, nil
}

// newShard returns shard i/n; ok is false if the two are no numbers or no shard.
func newShard(i, n string) (_ Shard, ok bool) {
	index, err := strconv.Atoi(i)
	if err != nil {
		return Shard{}, false
	}
	count, err := strconv.Atoi(n)
	if err != nil {
		return Shard{}, false
	}
	return Shard{index, count}, count <= maxShards && index >= 0 && index < count
}

// Whole reports whether the shard is all of a run.
func (s Shard) Whole() bool { return s.N == 0 }

// Range returns the outputs of the shard among n: from first to end-1. The sizes of shards differ
// by at most one.
func (s Shard) Range(n int) (first, end int) {
	if s.Whole() {
		return 0, n
	}
	boundary := func(i int) int { return int(int64(n) * int64(i) / int64(s.N)) }
	return boundary(s.I), boundary(s.I + 1)
}

// part returns the outputs of the shard in a run of n outputs, as the manifest lists them: nil for
// a whole run.
func (s Shard) part(n int) *Part {
	if s.Whole() {
		return nil
	}
	first, end := s.Range(n)
	return &Part{First: first, Count: end - first, Of: n}
}
