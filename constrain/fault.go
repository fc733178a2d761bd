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

// rowFault keeps the error of the lowest row, whichever goroutine fails first: an error must not
// depend on the order in which rows are visited.
type rowFault struct {
	mutex sync.Mutex
	row   int32
	cause error // nil until a row failed
}

// report keeps the error of a row, unless a lower row has one.
func (f *rowFault) report(row int32, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.cause == nil || row < f.row {
		f.row = row
		f.cause = err
	}
}

// err returns the error that was kept. All rows have been visited.
func (f *rowFault) err() error {
	if f.cause == nil {
		return nil
	}
	return &model.RowError{Row: f.row, Err: f.cause}
}
