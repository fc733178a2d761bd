package cli

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// writePictures writes five PNG files of the demo's size around a colour: pictures DIR RED GREEN
// BLUE.
func writePictures(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o777))
	for i := range 5 {
		m := image.NewNRGBA(image.Rect(0, 0, 64, 64))
		for y := range 64 {
			for x := range 64 {
				shade := func(s string) uint8 { return uint8(number(ts, s)) + uint8((x*(i+1)+y)%40) }
				m.SetNRGBA(x, y, color.NRGBA{shade(args[1]), shade(args[2]), shade(args[3]), 255})
			}
		}
		var b bytes.Buffer
		ts.Check(png.Encode(&b, m))
		ts.Check(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.png", i)), b.Bytes(), 0o666))
	}
}
