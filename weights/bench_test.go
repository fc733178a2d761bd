package weights

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkParse parses a header of 1,000 tensors, three times as many as a network of 7B has.
// The tensors' bytes are not read: parsing hands out parts of the file and copies none of them.
func BenchmarkParse(b *testing.B) {
	const tensors = 1000
	var header strings.Builder
	for i := range tensors {
		fmt.Fprintf(&header, `%c"model.layers.%d.self_attn.q_proj.weight":{"dtype":"BF16",`+
			`"shape":[4,8],"data_offsets":[%d,%d]}`, "{,"[min(i, 1)], i, 64*i, 64*(i+1))
	}
	data := file(header.String()+"}", 64*tensors)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(data, "m"); err != nil {
			b.Fatal(err)
		}
	}
}
