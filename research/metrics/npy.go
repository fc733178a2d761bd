package metrics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// array is the header of an .npy file.
type array struct {
	descr      string
	size       int // bytes an element
	shape      []int
	headerSize int
}

// maxHeader is the longest .npy header in bytes; numpy's have 64 to 128.
const maxHeader = 4096

// The dictionary as numpy writes it, with keys in any order.
var (
	dictionary  = regexp.MustCompile(`^\{((?:\s*'[a-z_]+': (?:'[^']*'|True|False|\([0-9, ]*\)),?)+)\s*\}\s*$`)
	entryOfDict = regexp.MustCompile(`'([a-z_]+)': ('[^']*'|True|False|\([0-9, ]*\))`)
)

// readArrayHeader reads up to the data (numpy.lib.format, versions 1.0 to 3.0). It ignores the
// memory order, because the arrays here are vectors and symmetric matrices.
func readArrayHeader(r io.Reader) (a array, err error) {
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil || string(start[:6]) != magic {
		return a, errors.New("not numpy's format")
	}
	field := make([]byte, 2)
	switch start[6] {
	case 1:
	case 2, 3:
		field = make([]byte, 4)
	default:
		return a, fmt.Errorf("version %d of numpy's format, want 1 to 3", start[6])
	}
	if _, err := io.ReadFull(r, field); err != nil {
		return a, err
	}
	n := int(binary.LittleEndian.Uint16(field))
	if len(field) == 4 {
		n = int(binary.LittleEndian.Uint32(field))
	}
	if n > maxHeader {
		return a, fmt.Errorf("a header of %d bytes, want at most %d", n, maxHeader)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return a, err
	}
	a.headerSize = len(start) + len(field) + n
	return a, a.parse(string(text))
}

func (a *array) parse(text string) error {
	body := dictionary.FindStringSubmatch(text)
	if body == nil {
		return fmt.Errorf("header %q is not numpy's", text)
	}
	seen := map[string]string{}
	for _, e := range entryOfDict.FindAllStringSubmatch(body[1], -1) {
		if _, twice := seen[e[1]]; twice {
			return fmt.Errorf("header has %s twice", e[1])
		}
		seen[e[1]] = e[2]
	}
	a.descr = strings.Trim(seen["descr"], "'")
	switch a.descr {
	case "<f8":
		a.size = 8
	case "<f4":
		a.size = 4
	default:
		return fmt.Errorf("descr is %q, want <f8 and <f4", a.descr)
	}
	if o := seen["fortran_order"]; o != "True" && o != "False" {
		return fmt.Errorf("fortran_order is %q, want True and False", o)
	}
	shape := seen["shape"]
	if !strings.HasPrefix(shape, "(") {
		return fmt.Errorf("shape is %q, want a tuple", shape)
	}
	parts := strings.Split(strings.Trim(shape, "()"), ",")
	for i, p := range parts {
		p = strings.TrimSpace(p)
		if p == "" && i == len(parts)-1 {
			break // (n,)
		}
		d, err := strconv.Atoi(p)
		if err != nil {
			return fmt.Errorf("shape is %q, want whole numbers", shape)
		}
		a.shape = append(a.shape, d)
	}
	return nil
}
