package policies

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// fieldUse is one field of want or have that an expression names, as far as
// its names are literal: have.tags[x] is /tags.
type fieldUse struct {
	variable     string
	segments     []string
	line, column int // as in expressionError
}

// fieldUses finds the fields that an expression names.
func fieldUses(compiled *cel.Ast) []fieldUse {
	var out []fieldUse
	native := compiled.NativeRep()
	inner := map[int64]bool{} // parts of a longer name that was met before
	ast.PreOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if inner[e.ID()] {
			return
		}
		var segments []string
		for operand, segment, named := step(e); operand != nil; operand, segment, named = step(e) {
			if !named {
				return // what stands before the brackets is met on its own
			}
			segments = append(segments, segment)
			inner[operand.ID()] = true
			e = operand
		}
		if len(segments) == 0 || e.Kind() != ast.IdentKind {
			return
		}
		slices.Reverse(segments)
		if name := strings.TrimPrefix(e.AsIdent(), "."); name == "want" || name == "have" {
			at := native.SourceInfo().GetStartLocation(e.ID())
			out = append(out, fieldUse{variable: name, segments: segments, line: max(at.Line(), 1), column: max(at.Column(), 0)})
		}
	}))
	return out
}

// step takes one name off an expression: x.a, x['a'], x.?a and x[?'a'] give x
// and a. named is false where what stands in the brackets is not literal text.
func step(e ast.Expr) (operand ast.Expr, segment string, named bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), true
	case ast.CallKind:
		call := e.AsCall()
		if f := call.FunctionName(); len(call.Args()) != 2 || f != operators.Index && f != operators.OptIndex && f != operators.OptSelect {
			return nil, "", false
		}
		if key := call.Args()[1]; key.Kind() == ast.LiteralKind {
			if text, ok := key.AsLiteral().(types.String); ok {
				return call.Args()[0], string(text), true
			}
		}
		return call.Args()[0], "", false
	default:
		return nil, "", false
	}
}

// observedOnly are fields that resources show and that nothing is compared
// with, so that no catalog has them.
var observedOnly = map[string][]string{
	"Instance":         {"/stateReason", "/launchTime", "/rootDeviceName", "/rootVolume/volumeId", "/nonRootVolumes/DEVICE/volumeId", "/vpcId", "/addresses"},
	"Volume":           {"/size", "/type", "/iops", "/throughput", "/encrypted", "/kmsKeyId", "/attachments", "/tags/KEY"},
	"NetworkInterface": {"/vpcId", "/subnetId", "/securityGroups", "/interfaceType", "/tags/KEY"},
	"SecurityGroup":    {"/description"},
	"Subnet":           {"/networkAclId"},
	"NATGateway":       {"/allocationIds", "/publicIps"},
	"RouteTable":       {"/main"},
	"NetworkACL":       {"/vpcId", "/default"},
	"LoadBalancer": {"/name", "/dnsName", "/ipAddressType", "/targets", "/attributes/NAME", "/targetGroups/NAME/vpcId", "/targetGroups/NAME/targetType",
		"/targetGroups/NAME/ipAddressType"},
	"VirtualMachine": {"/biosUuid", "/host", "/moid", "/toolsRunningStatus", "/disks/KEY/position", "/networks/INDEX/connected", "/networks/INDEX/addresses"},
}

// unknownField says that no resource of the kind has the field, with the one
// that is most like it.
func (c *catalog) unknownField(provider, kind string, u fieldUse) (message, hint string, unknown bool) {
	rows := c.of(provider, kind)
	if kind == "" || len(rows) == 0 {
		return "", "", false
	}
	paths := make([][]string, 0, len(rows)+1)
	for _, r := range rows {
		paths = append(paths, r.segments)
	}
	paths = append(paths, newPathPattern(statePath).segments)
	for _, p := range observedOnly[kind] {
		paths = append(paths, newPathPattern(p).segments)
	}
	var known []string
	for _, p := range paths {
		if leadsTo(u.segments, p) {
			return "", "", false
		}
		for i := range p {
			known = append(known, selector(u.variable, p[:i+1]))
		}
	}
	name := selector(u.variable, u.segments)
	hint = "see the catalog of drift for the fields there are"
	if n := nearest(name, known); n != "" {
		hint = fmt.Sprintf("did you mean %s?", n)
	}
	return fmt.Sprintf("%s has no field %s", kind, name), hint, true
}

// leadsTo reports whether the segments are the path, or lead to it.
func leadsTo(segments, path []string) bool {
	if len(segments) > len(path) {
		return false
	}
	for i, s := range segments {
		if s != path[i] && !placeholder(path[i]) {
			return false
		}
	}
	return true
}

var identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// selector writes a field as an expression names it.
func selector(variable string, segments []string) string {
	var b strings.Builder
	_, _ = b.WriteString(variable)
	for _, s := range segments {
		if identifier.MatchString(s) && !placeholder(s) {
			_, _ = b.WriteString("." + s)
		} else {
			_, _ = fmt.Fprintf(&b, "['%s']", s)
		}
	}
	return b.String()
}
