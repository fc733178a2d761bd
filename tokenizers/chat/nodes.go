package chat

// expr is an expression of a template, which the parser makes; run.eval computes its value.
type expr interface{ value(r *run, s *scope) any }

// compute is an expression given by its function.
type compute func(r *run, s *scope) any

func (c compute) value(r *run, s *scope) any { return c(r, s) }

// stmt runs a statement of a template, which writes to out, and returns the jump that ended it,
// break or continue, "" if none did.
type stmt func(r *run, s *scope, out *builder) (jump string)

// calling is the call of a function, which call blocks hand their body to.
type calling struct {
	f    expr
	args arguments
}

func (c calling) value(r *run, s *scope) any { return c.do(r, s, nil) }

// do makes the call, with the function caller as an argument if there is one.
func (c calling) do(r *run, s *scope, caller *function) any {
	f := r.eval(c.f, s)
	args, named := c.args.values(r, s)
	if caller != nil {
		named.set(text{s: "caller"}, caller)
	}
	return r.call(f, args, named)
}

// arguments are the arguments of a call.
type arguments struct {
	list  []expr
	names []string // of named
	named []expr
}

func (a arguments) values(r *run, s *scope) ([]any, *dict) {
	named := newDict()
	args := r.evalAll(a.list, s)
	for i, name := range a.names {
		if _, ok := named.at[name]; ok {
			fail("keyword argument %q is given twice", name)
		}
		named.set(text{s: name}, r.eval(a.named[i], s))
	}
	return args, named
}

// define is the definition of a macro, or of the body of a call block.
type define struct {
	name     string
	params   []string
	defaults []expr // for the last parameters
	varargs  bool   // the body reads further arguments
	kwargs   bool   // and further named ones
	caller   bool   // and the body of a call block
	body     []stmt
}
