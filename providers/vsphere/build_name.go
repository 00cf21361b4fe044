package vsphere

import (
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/google/uuid"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// instances is the namespace of instance UUIDs for owners whose UID is none.
var instances = uuid.MustParse("5a0f3c0e-7a53-4f0e-9a60-2f1c0b7c6d11")

// instanceUUID is the instance UUID that the owner's clone gets: the owner's own
// UID. By it a clone is found again whose answer was lost, and nobody can ask for
// another machine's, since the API server chooses UIDs.
func instanceUUID(owner providers.OwnerRef) (string, error) {
	if owner.UID == "" {
		return "", fmt.Errorf("%s has no UID: it was not read from an API server", owner)
	}
	if id, err := canonical.UUID(string(owner.UID)); err == nil {
		return id, nil
	}
	return uuid.NewSHA1(instances, []byte(owner.UID)).String(), nil
}

// instances are the instance UUIDs that a machine of the owner's may have: that
// of Holdfast's clones, and that of CAPV's, the VSphereVM's UID.
func (w *wantedMachine) instances(machine *infrav1.VSphereMachine) []string {
	var out []string
	ref := w.owner.Ref
	if ref.UID == "" {
		ref.UID = machine.UID
	}
	if id, err := instanceUUID(ref); err == nil {
		out = append(out, id)
	}
	if w.vm != nil {
		if id, err := canonical.UUID(string(w.vm.UID)); err == nil {
			out = append(out, id)
		}
	}
	return out
}

const (
	// mostName is the length of a generated name (CAPV, VSphereVMNamingSpec).
	mostName = 63
	// windowsName is how long a computer's name may be in Windows; what is longer
	// keeps its begin and its end.
	windowsName, windowsBegin, windowsEnd = 15, 9, 5
)

// nameOf gives the name of the owner's virtual machine, which its node gets too:
// the Machine's, or what spec.naming.template makes of it (CAPV,
// VSphereVMNamingSpec).
func nameOf(owner *providers.Owner, machine *infrav1.VSphereMachine) (string, error) {
	if owner.Machine == nil || owner.Machine.Name == "" {
		return "", fmt.Errorf("%s belongs to no Machine, which gives its virtual machine the name", owner.Ref)
	}
	name := owner.Machine.Name
	if text := machine.Spec.Naming.Template; text != "" {
		var err error
		if name, err = named63(text, name); err != nil {
			return "", fmt.Errorf("%s: spec.naming.template: %w", owner.Ref, err)
		}
	}
	if machine.Spec.OS == infrav1.Windows && len(owner.Machine.Name) > windowsName && len(name) > windowsName {
		name = strings.TrimSuffix(name[:windowsBegin], "-") + "-" + name[len(name)-windowsEnd:]
	}
	return name, nil
}

func named63(text, machine string) (string, error) {
	t, err := template.New("name").Option("missingkey=error").Funcs(template.FuncMap{
		"trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"trunc": func(n int, s string) string {
			switch {
			case n < 0 && len(s)+n > 0:
				return s[len(s)+n:]
			case n >= 0 && len(s) > n:
				return s[:n]
			default:
				return s
			}
		},
	}).Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.Execute(&b, map[string]any{"machine": map[string]any{"name": machine}}); err != nil {
		return "", err
	}
	name := b.String()
	if len(name) > mostName {
		name = name[:mostName]
	}
	if name == "" || strings.ContainsAny(name, "/\\%") {
		return "", errors.New("it gives no name that a virtual machine can have")
	}
	return name, nil
}
