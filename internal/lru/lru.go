// Package lru keeps values up to a number of bytes, those of each owner that were used last.
package lru

import (
	"container/list"
	"sync"
)

// Cache keeps values by their keys. Goroutines may share one.
type Cache[K comparable, V any] struct {
	most int64

	mu    sync.Mutex
	used  map[string]int64 // bytes by owner
	order list.List        // of *entry, the last used first
	byKey map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
	owner string
	bytes int64
}

// New returns an empty cache of about so many bytes.
func New[K comparable, V any](most int64) *Cache[K, V] {
	return &Cache[K, V]{most: most, used: map[string]int64{}, byKey: map[K]*list.Element{}}
}

// Get returns the value of a key, which is used by that.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.byKey[key]
	if at == nil {
		return value, false
	}
	c.order.MoveToFront(at)
	return at.Value.(*entry[K, V]).value, true
}

// Put keeps an owner's value, unless its key has one or it alone is larger than the cache. While
// all take too much, the owner of the most loses the value that was not used for the longest.
func (c *Cache[K, V]) Put(key K, value V, owner string, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes > c.most || c.byKey[key] != nil {
		return
	}
	c.byKey[key] = c.order.PushFront(&entry[K, V]{key, value, owner, bytes})
	c.used[owner] += bytes
	all, largest := int64(0), owner
	for name, n := range c.used {
		if all += n; n > c.used[largest] {
			largest = name
		}
	}
	for at := c.order.Back(); all > c.most && at != nil; {
		old, before := at.Value.(*entry[K, V]), at.Prev()
		if old.owner == largest {
			c.order.Remove(at)
			delete(c.byKey, old.key)
			all -= old.bytes
			if c.used[largest] -= old.bytes; c.used[largest] == 0 {
				delete(c.used, largest)
			}
		}
		at = before
	}
}
