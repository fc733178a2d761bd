package diskspace

import "golang.org/x/sys/windows"

// freeBytes is Free for a path that exists.
func freeBytes(path string) (bytes int64, known bool) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, false
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, false
	}
	return int64(free), true
}
