package aws

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/providers"
)

// variable is ${NAME} or ${NAME:=default} in a template, as clusterctl fills
// it in.
var variable = regexp.MustCompile(`\$\{([A-Z0-9_]+)(:?[=-]([^}]*))?\}`)

func fillVariable(match []byte) []byte {
	m := variable.FindSubmatch(match)
	switch name := string(m[1]); {
	case len(m[3]) > 0:
		return bytes.Trim(m[3], `"`)
	case strings.HasSuffix(name, "_COUNT"):
		return []byte("1")
	case strings.HasSuffix(name, "_MACHINE_TYPE"):
		return []byte("m6i.large")
	case strings.HasSuffix(name, "VERSION"):
		return []byte("v1.34.2")
	default:
		return []byte(strings.ToLower(strings.ReplaceAll(name, "_", "-")))
	}
}

// templatesFolder is that of the CAPA release whose types are used.
func templatesFolder(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api-provider-aws/v2").Output()
	if err != nil {
		t.Fatalf("find CAPA's module: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "templates")
}

// manifest is what one template declares.
type manifest struct {
	cluster  *clusterv1.Cluster
	infra    client.Object
	machines []*infrav1.AWSMachineTemplate
}

func readManifest(t *testing.T, file string) manifest {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := manifest{cluster: genCluster()}
	for _, doc := range bytes.Split(variable.ReplaceAllFunc(raw, fillVariable), []byte("\n---")) {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &u.Object); err != nil {
			t.Fatalf("%s: %v in\n%s", file, err, doc)
		}
		into := func(o runtime.Object) {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, o, true); err != nil {
				t.Fatalf("%s: %s: %v", file, u.GetKind(), err)
			}
		}
		switch u.GetKind() {
		case "AWSCluster":
			c := &infrav1.AWSCluster{}
			into(c)
			m.infra = c
		case "AWSClusterTemplate":
			ct := &infrav1.AWSClusterTemplate{}
			into(ct)
			m.infra = &infrav1.AWSCluster{Spec: ct.Spec.Template.Spec}
		case "AWSManagedCluster":
			m.infra = u
		case "AWSMachineTemplate":
			mt := &infrav1.AWSMachineTemplate{}
			into(mt)
			m.machines = append(m.machines, mt)
		}
	}
	return m
}

// Each of CAPA's own templates gives a wanted state: for its cluster and for
// a machine of each of its machine templates, before anything is made and
// after. What is not modelled is named as not compared.
func TestUpstreamTemplates(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(templatesFolder(t), "*.yaml"))
	if err != nil || len(files) < 15 {
		t.Fatalf("%d templates: %v", len(files), err)
	}
	machines, clusters := 0, 0
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := readManifest(t, file)
			if c, ok := m.infra.(*infrav1.AWSCluster); ok {
				clusters++
				checkTemplateCluster(t, m, c)
			}
			for _, template := range m.machines {
				machines++
				checkTemplateMachine(t, m, template)
			}
		})
	}
	if clusters < 8 || machines < 15 {
		t.Errorf("only %d clusters and %d machines", clusters, machines)
	}
}

func checkTemplateCluster(t *testing.T, m manifest, c *infrav1.AWSCluster) {
	t.Helper()
	c.Name, c.Namespace = m.cluster.Name, m.cluster.Namespace
	o := &providers.Owner{Ref: providers.RefOf(c), Cluster: m.cluster, Infra: c, InfraCluster: c}
	for _, r := range checkAny(t, o, genSnapshot()) {
		if !strings.Contains(r.Unchecked, "not created yet") && !strings.Contains(r.Unchecked, "no subnets are recorded") && !strings.Contains(r.Unchecked, "not modelled") {
			t.Errorf("%s of a cluster that was never made: %+v", r.ID, r)
		}
	}
	recorded := c.DeepCopy()
	genRecord(recorded)
	o.Infra, o.InfraCluster = recorded, recorded
	compared := 0
	for _, r := range checkAny(t, o, genSnapshot()) {
		compared += len(r.Fields)
	}
	if compared < 50 {
		t.Errorf("only %d fields of a recorded cluster are compared", compared)
	}
}

// genRecord writes what CAPA records of a cluster that it made.
func genRecord(c *infrav1.AWSCluster) {
	specimen := genAWSCluster(withNetwork)
	net := &c.Spec.NetworkSpec
	net.VPC.ID, net.VPC.Tags, net.VPC.InternetGatewayID = "vpc-1", specimen.Spec.NetworkSpec.VPC.Tags, pt("igw-1")
	if len(net.Subnets) == 0 {
		net.Subnets = specimen.Spec.NetworkSpec.Subnets
	}
	for i := range net.Subnets {
		net.Subnets[i].ResourceID = "subnet-" + string(rune('a'+i))
	}
	c.Status.Network = specimen.Status.Network
	c.Status.Network.APIServerELB.ARN = arn
}

func checkTemplateMachine(t *testing.T, m manifest, template *infrav1.AWSMachineTemplate) {
	t.Helper()
	machine := genAWSMachine(func(a *infrav1.AWSMachine) { a.Spec = template.Spec.Template.Spec })
	o := machineOwner(machine)
	o.InfraCluster = m.infra
	for _, r := range checkAny(t, o, genSnapshot()) {
		if !r.Unsettled {
			t.Errorf("%s of a machine without an instance: %+v", r.ID, r)
		}
	}
	machine.Spec.ProviderID = pt("aws:///a/i-1")
	o.ControlPlane = strings.Contains(template.Name, "control-plane")
	found := false
	for _, r := range checkAny(t, o, genSnapshot()) {
		if r.ID == (providers.ID{Kind: providers.KindInstance, Name: "i-1"}) {
			found = true
			checkField(t, r, "/instanceType", machine.Spec.InstanceType)
		}
	}
	if !found {
		t.Error("the instance is not wanted")
	}
}
