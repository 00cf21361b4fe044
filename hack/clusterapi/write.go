package clusterapi

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Write prints objects as documents for kubectl.
func Write[O runtime.Object](w io.Writer, objects ...O) error {
	for _, o := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return err
		}
		delete(content, "status") // the API server's to say
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		data, err := yaml.Marshal(content)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s", data); err != nil {
			return err
		}
	}
	return nil
}

var certificate = regexp.MustCompile(`(?s)^\s*-----BEGIN CERTIFICATE-----\n.*-----END CERTIFICATE-----\s*$`)

// Validate tells what an API server would refuse, or could not use.
func (s *Service) Validate() error {
	var errs []error
	for what, value := range map[string]string{"namespace": s.Namespace, "service": s.Name} {
		if problems := validation.IsDNS1123Label(value); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("%s %q: %s", what, value, strings.Join(problems, "; ")))
		}
	}
	if problems := validation.IsValidPortNum(int(s.Port)); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("port %d: %s", s.Port, strings.Join(problems, "; ")))
	}
	if len(s.CABundle) > 0 && !certificate.Match(s.CABundle) {
		errs = append(errs, errors.New("certificate of the authority: it is no PEM with certificates alone"))
	}
	if s.InjectFrom != "" && strings.Count(s.InjectFrom, "/") != 1 {
		errs = append(errs, fmt.Errorf("certificate to inject from %q: want NAMESPACE/NAME", s.InjectFrom))
	}
	return errors.Join(errs...)
}
