package chat

// expr is an expression of a template; run.eval computes its value.
type expr any

type (
	constant struct{ value any }
	variable struct{ name string }
	listing  struct{ items []expr } // a list
	tupling  struct{ items []expr }
	mapping  struct{ keys, values []expr }
	unary    struct {
		op string // - + not
		x  expr
	}
	binary struct {
		op   string // + - * / // % ** ~ and or
		a, b expr
	}
	comparison struct { // a op1 b op2 c ...
		first expr
		ops   []string
		rest  []expr
	}
	choice  struct{ test, yes, no expr } // no may be nil
	getAttr struct {
		x    expr
		name string
	}
	getItem struct{ x, key expr }
	slicing struct{ x, start, stop, step expr } // each of the three may be nil
	calling struct {
		f    expr
		args arguments
	}
	filtering struct {
		x    expr
		name string
		args arguments
	}
	asking struct {
		x    expr
		name string
		args arguments
		not  bool
	}
)

// arguments are the arguments of a call.
type arguments struct {
	list  []expr
	names []string // of named
	named []expr
}

// stmt is a statement of a template; run.exec runs it.
type stmt any

type (
	output struct{ x expr }
	raw    struct{ s string }
	branch struct {
		tests  []expr
		bodies [][]stmt // one more than tests if there is an else
	}
	loop struct {
		target     expr // variable or tupling of them
		over, test expr // test may be nil
		body, none []stmt
		recursive  bool
	}
	assign struct {
		target expr // variable, tupling, or getAttr of a namespace
		value  expr
		body   []stmt // body of a block set, whose value is nil
	}
	define struct {
		name     string
		params   []string
		defaults []expr // for the last parameters
		varargs  bool   // the body reads further arguments
		kwargs   bool   // and further named ones
		caller   bool   // and the body of a call block
		body     []stmt
	}
	block struct { // call or filter: x is what is written
		call *define // of a call block, an argument of the call x
		body []stmt  // of a filter block, the variable bodyName
		x    expr
	}
	refused struct{ name string } // a statement that is not done
	jump    struct{ name string } // break or continue
)
