package constrain

import (
	"errors"
	"sync"

	"unmask/model"
)

var (
	errNone = errors.New("no text of the grammar fits what is open")
	errNaN  = errors.New("a logit is NaN, want finite numbers or -Inf")
	errInf  = errors.New("a logit is +Inf, want finite numbers or -Inf")
)

// rowFault keeps the error of the lowest row, whichever goroutine fails first.
type rowFault struct {
	mutex sync.Mutex
	row   int32
	of    error
}

func (f *rowFault) set(row int32, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.of == nil || row < f.row {
		f.row, f.of = row, err
	}
}

func (f *rowFault) err() error {
	if f.of == nil {
		return nil
	}
	return &model.RowError{Row: f.row, Err: f.of}
}
