package server

import "container/list"

// results keeps works that are done, the latest used first, up to a number of bytes.
type results struct {
	most  int64
	bytes int64
	order list.List // of *kept
	byKey map[string]*list.Element
}

type kept struct {
	*work
	bytes int64
}

// put keeps a work. One that is larger than all room is not kept.
func (r *results) put(w *work) {
	n := w.size()
	if n > r.most || r.byKey[w.key] != nil {
		return
	}
	if r.byKey == nil {
		r.byKey = map[string]*list.Element{}
	}
	r.byKey[w.key] = r.order.PushFront(&kept{w, n})
	r.bytes += n
	for r.bytes > r.most {
		last := r.order.Back()
		old := r.order.Remove(last).(*kept)
		delete(r.byKey, old.key)
		r.bytes -= old.bytes
	}
}

// get returns the work of a key, nil for none.
func (r *results) get(key string) *work {
	at := r.byKey[key]
	if at == nil {
		return nil
	}
	r.order.MoveToFront(at)
	return at.Value.(*kept).work
}
