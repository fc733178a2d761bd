package gguf

import (
	"fmt"
	"regexp"
	"strconv"

	"unmask/weights"
)

// Keys of a file that gguf-split of llama.cpp has cut into parts. The first part has all other keys
// too.
const (
	splitCountKey  = "split.count"
	splitNumberKey = "split.no" // from 0
)

// maxParts bounds the parts of a file; names have five digits.
const maxParts = 4096

// partName matches the name of a part: its number from 1, and how many there are.
var partName = regexp.MustCompile(`^(.*-)([0-9]{5})(-of-([0-9]{5})\.gguf)$`)

// addParts adds the tensors of a split file's other parts, which are beside the first. The name of
// another part than the first stands for the whole too.
func (f *File) addParts() error {
	if !f.Has(splitCountKey) {
		return nil
	}
	count, err := f.Int(splitCountKey)
	if err != nil || count == 1 {
		return err
	}
	if count < 1 || count > maxParts {
		return fmt.Errorf("%s is %d, want 1 to %d", splitCountKey, count, maxParts)
	}
	name := partName.FindStringSubmatch(f.Name)
	if name == nil || name[4] != fmt.Sprintf("%05d", count) {
		return fmt.Errorf("the file is a part of a split one, want a name that ends in 00001-of-%05d.gguf",
			count)
	}

	partNumber, _ := strconv.Atoi(name[2])
	var parts []string
	for i := 1; i <= count; i++ {
		parts = append(parts, fmt.Sprintf("%s%05d%s", name[1], i, name[3]))
	}
	if partNumber < 1 || partNumber > count {
		return fmt.Errorf("the part is %d, want 1 to %d", partNumber, count)
	}
	files := make([]*File, count)
	for i, part := range parts {
		if i == partNumber-1 {
			files[i] = f
		} else {
			files[i], err = openPart(part)
		}
		if err == nil {
			err = files[i].checkPart(i, count)
		}
		if err == nil && files[i] != f {
			err = f.Set.Join(files[i].Set)
		}
		if err != nil {
			return fmt.Errorf("part %d of %d: %w", i+1, count, err)
		}
	}
	f.Parts = parts
	f.values = files[0].values
	return nil
}

// openPart maps one part of a split file.
func openPart(name string) (*File, error) {
	f := &File{Name: name}
	set, err := weights.OpenWith(name, f.parse)
	if err != nil {
		return nil, f.addName(err)
	}
	f.Set = set
	return f, nil
}

// checkPart refuses a file that is not the part of this number.
func (f *File) checkPart(number, count int) error {
	foundCount, err := f.Int(splitCountKey)
	if err != nil {
		return err
	}
	foundNumber, err := f.Int(splitNumberKey)
	if err == nil && (foundNumber != number || foundCount != count) {
		err = fmt.Errorf("%s is %d of %d, want %d of %d", splitNumberKey, foundNumber, foundCount, number,
			count)
	}
	return err
}
