package aws

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// policyDocument is what matters of an IAM policy.
type policyDocument struct {
	Statement []struct {
		Sid    string
		Action []string
	}
}

func readPolicy(t *testing.T, name string) policyDocument {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	var p policyDocument
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// clientCalls gives the IAM actions of all calls on a session's clients in
// files of this package.
func clientCalls(t *testing.T, pattern string) (actions []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	services := map[string]string{
		"ec2": "ec2", "elb": "elasticloadbalancing", "elbv2": "elasticloadbalancing", "secrets": "secretsmanager", "ssm": "ssm",
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			// w.ec2.StartInstances(...): a field of the session, not the package.
			if client, ok := method.X.(*ast.SelectorExpr); ok && services[client.Sel.Name] != "" {
				actions = append(actions, services[client.Sel.Name]+":"+method.Sel.Name)
			}
			return true
		})
	}
	slices.Sort(actions)
	return slices.Compact(actions)
}

// TestWritePermissions checks that the documented policy for repairs has all
// that Apply calls beyond the policy for reading, and nothing else; and that no
// other file of the package calls anything that changes.
func TestWritePermissions(t *testing.T) {
	reads := readPolicy(t, "permissions-aws.json").Statement[0].Action
	written := clientCalls(t, "apply*.go")
	if len(written) < 40 {
		t.Fatalf("only %d actions were found in the code", len(written))
	}
	want := slices.DeleteFunc(slices.Clone(written), func(action string) bool { return slices.Contains(reads, action) })
	write := readPolicy(t, "permissions-aws-write.json")
	if diff := cmp.Diff(want, write.Statement[0].Action); diff != "" {
		t.Errorf("docs/permissions-aws-write.json is not what Apply calls (-code +document):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"iam:PassRole"}, write.Statement[1].Action); diff != "" {
		t.Errorf("the second statement is for instance profiles: %s", diff)
	}
	built := clientCalls(t, "build*.go")
	for _, action := range clientCalls(t, "*.go") {
		if !slices.Contains(written, action) && !slices.Contains(built, action) && !strings.Contains(action, ":Describe") {
			t.Errorf("%s is called outside of apply*.go and build*.go", action)
		}
	}
	for _, action := range append(want, reads...) {
		for _, never := range []string{":Terminate", ":Run", ":CreateVpc", ":DeleteVolume", ":DeleteVpc", ":DeleteLoadBalancer\x00", ":DeleteSecurityGroup"} {
			if strings.Contains(action+"\x00", never) {
				t.Errorf("%s must be in no policy: repairs neither make nor destroy", action)
			}
		}
	}
}
