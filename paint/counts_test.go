package paint_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask"
	"unmask/backend"
	"unmask/backend/plain"
	"unmask/guide"
	"unmask/model"
)

// counting is a device that counts matrix products, their rows, and rows of the output head.
type counting struct {
	backend.Backend
	products, rows, head int
}

func (c *counting) Linear(dst, x *tensor.Dense, rows int, w backend.Matrix, e backend.Epilogue) {
	c.products++
	c.rows += rows
	c.Backend.Linear(dst, x, rows, w, e)
}

func (c *counting) HeadSample(x *tensor.Dense, rows int, h backend.Head, d *backend.HeadDraw) {
	c.head += rows
	c.Backend.HeadSample(x, rows, h, d)
}

// What depends on a class or a prompt alone is computed once a run, not once a step. Guidance is
// one pass with twice the rows, whose output head runs at the rows of one sequence only.
func TestWhatIsComputedOnce(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			d := &counting{Backend: plain.New()}
			m, err := unmask.Load(context.Background(), f.folder(t), unmask.Options{Backend: d})
			require.NoError(t, err)
			condition := func() *model.Condition {
				if !f.prompt {
					c, err := m.ClassCondition("7")
					require.NoError(t, err)
					return c
				}
				list, err := m.PromptConditions(context.Background(), []string{"a photo of a cat"}, "")
				require.NoError(t, err)
				return list[0]
			}
			length := m.Spec().Length()
			draw := model.Draw{Power: 1, Uniform: make([]float64, length), Token: make([]int32, length),
				LogP: make([]float64, length)}
			var b model.Batch
			for i := range length {
				b.Tokens, b.ReadRows = append(b.Tokens, m.Spec().Mask), append(b.ReadRows, int32(i))
				draw.Uniform[i] = 0.5
			}
			step := func(of model.Denoiser, c *model.Condition) counting {
				b.Size, b.Length, b.Conditions = 1, length, []*model.Condition{c}
				d.products, d.rows, d.head = 0, 0, 0
				got, err := of.Forward(context.Background(), &b)
				require.NoError(t, err)
				require.NoError(t, got.Sample(b.ReadRows, &draw))
				return counting{products: d.products, rows: d.rows, head: d.head}
			}
			c := condition()
			first, second := step(m.Denoiser, c), step(m.Denoiser, c)
			require.Equal(t, second, step(m.Denoiser, c))
			if f.name == "titok" { // its class is a token of the sequence
				require.Equal(t, first, second)
			} else {
				require.Less(t, second.rows, first.rows)
			}

			g := guide.New(m.Denoiser, func(model.Progress) float64 { return 2 })
			step(g, c)
			guided := step(g, c)
			// aMUSEd's last layer before the head runs for each of the two.
			require.LessOrEqual(t, guided.products, second.products+1, "one pass")
			require.Equal(t, 2*second.rows, guided.rows, "of twice the rows")
			require.Equal(t, second.head, guided.head, "and one head")
			require.Equal(t, length, guided.head)
		})
	}
}
