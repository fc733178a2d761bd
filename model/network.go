package model

import (
	"context"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
)

// Network is a Refiner built from a function that computes one pass: it cuts batches into passes,
// keeps their results and runs the output head. It is the shortest way to write a transformer in
// another module: set the fields and use it as Loaded.Denoiser.
type Network struct {
	Passes
	Of    Spec
	Head  backend.Head
	Width int // of the head's input

	// Pass computes the rows of p and returns the head's input [rows of p, Width]. It takes the
	// tensors for keys and values from p.KV. If p.Read is not nil, only the rows in it must be
	// right.
	Pass func(ctx context.Context, p *Pass) (*tensor.Dense, error)

	marginals HeadMarginals
	hidden    *tensor.Dense // [sequences*length, Width]
	read      *tensor.Dense // [rows, Width] the rows of hidden that the head reads
}

// Spec implements Denoiser.
func (n *Network) Spec() Spec { return n.Of }

// Forward implements Denoiser.
func (n *Network) Forward(ctx context.Context, b *Batch) (Marginals, error) {
	return n.compute(ctx, b, n.Passes.Full)
}

// Refine implements Refiner.
func (n *Network) Refine(ctx context.Context, b *Batch, rows []int32) (Marginals, error) {
	return n.compute(ctx, b, func(b *Batch) error { return n.Passes.Some(b, rows) })
}

func (n *Network) compute(ctx context.Context, b *Batch, begin func(*Batch) error) (_ Marginals,
	err error) {
	defer backend.Recover(&err)
	if err := b.Check(n.Of); err != nil {
		return nil, err
	}
	if err := begin(b); err != nil {
		return nil, err
	}
	n.hidden = nn.Grow(n.Backend, n.hidden, b.Size*b.Length, n.Width)
	for p := n.Next(); p != nil; p = n.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x, err := n.Pass(ctx, p)
		if err != nil {
			return nil, err
		}
		n.Backend.Scatter(n.hidden, x, p.At)
	}
	n.marginals.Backend, n.marginals.Head, n.marginals.Length = n.Backend, n.Head, b.Length
	n.marginals.Project = n.project
	return &n.marginals, nil
}

func (n *Network) project(rows []int32) *tensor.Dense {
	n.read = nn.Grow(n.Backend, n.read, len(rows), n.Width)
	n.Backend.Gather(n.read, n.hidden, rows)
	return n.read
}
