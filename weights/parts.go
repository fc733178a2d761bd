package weights

import (
	"fmt"
	"regexp"
	"strconv"
)

// MaxParts bounds the parts of a split file; their names have five digits.
const MaxParts = 4096

// partName matches the name of a part: its number from 1, and how many there are.
var partName = regexp.MustCompile(`^(.*-)([0-9]{5})-of-([0-9]{5})\.gguf$`)

// PartNames returns the names of all parts of a split GGUF file in their order, from that of any of
// them, and the place of that one. It returns nil for the name of no part.
func PartNames(name string) (parts []string, place int) {
	match := partName.FindStringSubmatch(name)
	if match == nil {
		return nil, 0
	}
	number, _ := strconv.Atoi(match[2])
	count, _ := strconv.Atoi(match[3])
	if count < 1 || count > MaxParts || number < 1 || number > count {
		return nil, 0
	}
	for i := 1; i <= count; i++ {
		parts = append(parts, fmt.Sprintf("%s%05d-of-%05d.gguf", match[1], i, count))
	}
	return parts, number - 1
}
