package policies

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// Limits of expressions. The estimate assumes lists and texts of these sizes,
// so an expression that walks a list within a list passes and one that does so
// three deep does not.
const (
	maxExpression  = 4096
	maxCostGuess   = 2_000_000
	maxCostRunning = 200_000
	guessedList    = 128
	guessedText    = 256
)

// celVariables are the names that an expression sees.
var celVariables = []string{"want", "have", "owner", "cluster", "finding", "diff", "now"}

// expression is one compiled CEL expression. It is safe for concurrent use.
type expression struct {
	source  string
	program cel.Program
	// uses says which variables occur, so that those which do not are not
	// built.
	uses map[string]bool
	// fields are those of want and have that it names.
	fields []fieldUse
}

// expressionError is one error with its place inside the expression; line
// counts from 1 and column from 0.
type expressionError struct {
	line, column int
	message      string
	hint         string
}

// celEnvironment is Kubernetes' own environment, in its oldest still supported
// form for new expressions, so that an expression reads as it would in an
// admission policy.
var celEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	str, flag := apiservercel.StringType, apiservercel.BoolType
	texts := apiservercel.NewMapType(str, str, guessedList)
	fields := apiservercel.NewMapType(str, apiservercel.DynType, guessedList)
	object := func(name string, members map[string]*apiservercel.DeclType) *apiservercel.DeclType {
		decl := make(map[string]*apiservercel.DeclField, len(members))
		for n, t := range members {
			decl[n] = apiservercel.NewDeclField(n, t, true, nil, nil)
		}
		return apiservercel.NewObjectType("holdfast."+name, decl)
	}
	type members = map[string]*apiservercel.DeclType
	resource := object("Resource", members{"provider": str, "kind": str, "id": str, "name": str})
	owner := object("Owner", members{"apiVersion": str, "kind": str, "namespace": str, "name": str, "uid": str,
		"pool": str, "zone": str, "controlPlane": flag, "labels": texts, "annotations": texts})
	cluster := object("Cluster", members{"namespace": str, "name": str, "labels": texts, "annotations": texts})
	finding := object("Finding", members{"status": str, "reason": str, "fingerprint": str, "resource": resource,
		"observations": apiservercel.IntType, "paths": apiservercel.NewListType(str, guessedList)})
	diff := object("Diff", members{"path": str, "want": apiservercel.DynType, "have": apiservercel.DynType,
		"type": str, "mutability": str, "adopted": flag, "sensitive": flag, "foreign": str})
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("want", fields.CelType()),
			cel.Variable("have", fields.CelType()),
			cel.Variable("owner", owner.CelType()),
			cel.Variable("cluster", cluster.CelType()),
			cel.Variable("finding", finding.CelType()),
			cel.Variable("diff", diff.CelType()),
			cel.Variable("now", cel.TimestampType),
		},
		DeclTypes: []*apiservercel.DeclType{owner, cluster, finding, diff, resource},
	})
	if err != nil {
		return nil, fmt.Errorf("make the environment for expressions: %w", err)
	}
	return set.StoredExpressionsEnv(), nil
})

// compileExpression parses, checks and prices an expression.
func compileExpression(source string) (*expression, []expressionError) {
	if len(source) > maxExpression {
		return nil, []expressionError{{line: 1, message: fmt.Sprintf("expression is longer than %d characters", maxExpression), hint: "split the rule"}}
	}
	env, err := celEnvironment()
	if err != nil {
		return nil, []expressionError{{line: 1, message: err.Error()}}
	}
	ast, issues := env.Compile(source)
	if issues != nil && issues.Err() != nil {
		return nil, issueErrors(issues)
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, []expressionError{{line: 1,
			message: fmt.Sprintf("expression gives %s, not true or false", ast.OutputType()),
			hint:    "compare it with something, as in have.state == 'running'"}}
	}
	cost, err := env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: guesser{}})
	if err != nil || cost.Max > maxCostGuess {
		return nil, []expressionError{{line: 1, message: "expression may cost too much to evaluate",
			hint: "nest fewer all(), exists(), map() and filter(), or split the rule"}}
	}
	program, err := env.Program(ast, cel.CostLimit(maxCostRunning), cel.InterruptCheckFrequency(100))
	if err != nil {
		return nil, []expressionError{{line: 1, message: err.Error()}}
	}
	uses := map[string]bool{}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		uses[ref.Name] = true
	}
	return &expression{source: source, program: program, uses: uses, fields: fieldUses(ast)}, nil
}

// guesser bounds sizes that the types do not tell.
type guesser struct{}

func (guesser) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	size := uint64(guessedList)
	if n.Type().IsExactType(cel.StringType) || n.Type().IsExactType(cel.BytesType) {
		size = guessedText
	}
	return &checker.SizeEstimate{Min: 0, Max: size}
}

func (guesser) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// holds evaluates the expression. An error means that it cannot be told.
func (e *expression) holds(vars map[string]any) (bool, error) {
	out, _, err := e.program.Eval(vars)
	if err != nil {
		return false, err
	}
	b, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("expression gave %T", out.Value())
	}
	return b, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.TrimSpace(line)
}
