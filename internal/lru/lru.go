// Package lru keeps values up to a number of bytes. Where it must drop some, it drops those of the
// owner that takes the most, so that one client's values cannot push out everybody else's.
package lru

import (
	"container/list"
	"sync"
)

// Cache keeps values by their keys. Goroutines may share one.
type Cache[K comparable, V any] struct {
	maxBytes int64

	mu sync.Mutex

	// used are the bytes of each owner.
	used map[string]int64

	// order has the *entry values, the most recently used first; byKey are its elements.
	order list.List
	byKey map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
	owner string
	bytes int64
}

// New returns an empty cache of at most maxBytes bytes.
func New[K comparable, V any](maxBytes int64) *Cache[K, V] {
	return &Cache[K, V]{
		maxBytes: maxBytes,
		used:     map[string]int64{},
		byKey:    map[K]*list.Element{},
	}
}

// Get returns the value of a key and makes it the most recently used one. ok is false if the cache
// does not have it.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.byKey[key]
	if element == nil {
		return value, false
	}
	c.order.MoveToFront(element)
	return element.Value.(*entry[K, V]).value, true
}

// Put keeps an owner's value, unless the cache has a value of this key already or the value alone
// is larger than the cache. To make room, the owner with the most bytes loses its least recently
// used values.
func (c *Cache[K, V]) Put(key K, value V, owner string, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes > c.maxBytes || c.byKey[key] != nil {
		return
	}
	c.byKey[key] = c.order.PushFront(&entry[K, V]{key, value, owner, bytes})
	c.used[owner] += bytes

	total := int64(0)
	largest := owner
	for name, n := range c.used {
		total += n
		if n > c.used[largest] {
			largest = name
		}
	}

	for element := c.order.Back(); total > c.maxBytes && element != nil; {
		previous := element.Prev() // Remove would clear it
		oldest := element.Value.(*entry[K, V])
		if oldest.owner == largest {
			c.order.Remove(element)
			delete(c.byKey, oldest.key)
			total -= oldest.bytes
			c.used[largest] -= oldest.bytes
			if c.used[largest] == 0 {
				delete(c.used, largest)
			}
		}
		element = previous
	}
}
