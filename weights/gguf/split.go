package gguf

import (
	"fmt"

	"unmask/weights"
)

// Keys of a file that gguf-split of llama.cpp has cut into parts. The first part has all other keys
// too.
const (
	splitCountKey  = "split.count"
	splitNumberKey = "split.no" // from 0
)

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
	if count < 1 || count > weights.MaxParts {
		return fmt.Errorf("%s is %d, want 1 to %d", splitCountKey, count, weights.MaxParts)
	}
	parts, place := weights.PartNames(f.Name)
	if len(parts) != count {
		return fmt.Errorf("the file is a part of a split one, want a name that ends in 00001-of-%05d.gguf",
			count)
	}

	files := make([]*File, count)
	for i, part := range parts {
		if i == place {
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
	f.values = files[0].values // the others have keys of their part alone
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
