package vsphere

import (
	"context"
	"errors"
	"fmt"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// pageSize is how many objects one page asks for. vCenter may answer with
// fewer; each page then carries a token for the next
// (PropertyCollector.RetrievePropertiesEx, RetrieveOptions.maxObjects).
const pageSize = 250

// retrieveAttempts bounds how often a listing starts again after an object
// disappeared from under it.
const retrieveAttempts = 3

// object is one managed object as read.
type object struct {
	ref   types.ManagedObjectReference
	props map[string]any
	// missing are properties that exist and could not be read, with the
	// fault's type.
	missing map[string]string
}

func (o *object) str(name string) string {
	switch v := o.props[name].(type) {
	case string:
		return v
	case types.VirtualMachinePowerState:
		return string(v)
	case types.VirtualMachineConnectionState:
		return string(v)
	default:
		return ""
	}
}

func (o *object) refTo(name string) types.ManagedObjectReference {
	switch v := o.props[name].(type) {
	case types.ManagedObjectReference:
		return v
	case *types.ManagedObjectReference:
		return *v
	default:
		return types.ManagedObjectReference{}
	}
}

// retrieve reads the given properties of every object of the kinds below the
// root folder, page by page. It starts again when an object was destroyed
// meanwhile, since a listing that breaks off proves no absence; what it then
// returns is one whole listing or an error.
func retrieve(ctx context.Context, c *vim25.Client, kinds []string, propSet []types.PropertySpec) ([]object, error) {
	var err error
	for range retrieveAttempts {
		var objects []object
		objects, err = retrieveOnce(ctx, c, kinds, propSet)
		if err == nil || !fault.Is(err, &types.ManagedObjectNotFound{}) {
			return objects, err
		}
	}
	return nil, fmt.Errorf("objects kept disappearing during %d listings: %w", retrieveAttempts, err)
}

func retrieveOnce(ctx context.Context, c *vim25.Client, kinds []string, propSet []types.PropertySpec) (_ []object, err error) {
	v, err := view.NewManager(c).CreateContainerView(ctx, c.ServiceContent.RootFolder, kinds, true)
	if err != nil {
		return nil, err
	}
	defer func() {
		// The view lives in the session only. It goes even when the caller's
		// context has ended, or views pile up until logout; but nobody who is
		// ending waits for a vCenter that does not answer.
		ending := ctx
		if ctx.Err() != nil {
			var cancel context.CancelFunc
			ending, cancel = context.WithTimeout(context.WithoutCancel(ctx), goodbye)
			defer cancel()
		}
		if destroyErr := v.Destroy(ending); destroyErr != nil && err == nil &&
			!fault.Is(destroyErr, &types.ManagedObjectNotFound{}) {
			err = fmt.Errorf("destroy view: %w", destroyErr)
		}
	}()
	spec := types.PropertyFilterSpec{
		PropSet: propSet,
		ObjectSet: []types.ObjectSpec{{
			Obj:  v.Reference(),
			Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{
				Type: v.Reference().Type,
				Path: "view",
			}},
		}},
	}
	return retrievePages(ctx, c, spec)
}

// retrieveRefs reads the properties of named objects.
func retrieveRefs(ctx context.Context, c *vim25.Client, refs []types.ManagedObjectReference, propSet []types.PropertySpec) ([]object, error) {
	spec := types.PropertyFilterSpec{PropSet: propSet}
	for _, ref := range refs {
		spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
	}
	return retrievePages(ctx, c, spec)
}

func retrievePages(ctx context.Context, c *vim25.Client, spec types.PropertyFilterSpec) ([]object, error) {
	collector := c.ServiceContent.PropertyCollector
	first, err := methods.RetrievePropertiesEx(ctx, c, &types.RetrievePropertiesEx{
		This:    collector,
		SpecSet: []types.PropertyFilterSpec{spec},
		Options: types.RetrieveOptions{MaxObjects: pageSize},
	})
	if err != nil {
		return nil, err
	}
	if first.Returnval == nil {
		return nil, nil
	}
	objects := appendObjects(nil, first.Returnval.Objects)
	for token := first.Returnval.Token; token != ""; {
		next, err := methods.ContinueRetrievePropertiesEx(ctx, c, &types.ContinueRetrievePropertiesEx{This: collector, Token: token})
		if err != nil {
			return nil, fmt.Errorf("page after %d objects: %w", len(objects), err)
		}
		if next.Returnval.Token == token {
			return nil, errors.New("the same page token came twice")
		}
		objects = appendObjects(objects, next.Returnval.Objects)
		token = next.Returnval.Token
	}
	return objects, nil
}

func appendObjects(objects []object, contents []types.ObjectContent) []object {
	for _, content := range contents {
		o := object{ref: content.Obj, props: make(map[string]any, len(content.PropSet))}
		for _, p := range content.PropSet {
			if p.Val != nil {
				o.props[p.Name] = p.Val
			}
		}
		for _, m := range content.MissingSet {
			if o.missing == nil {
				o.missing = make(map[string]string, len(content.MissingSet))
			}
			o.missing[m.Path] = faultName(m.Fault.Fault)
		}
		objects = append(objects, o)
	}
	return objects
}

// faultName gives a fault's type without its package: NoPermission.
func faultName(f types.BaseMethodFault) string {
	if f == nil {
		return "unknown fault"
	}
	name := fmt.Sprintf("%T", f)
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return name[i+1:]
		}
	}
	return name
}
