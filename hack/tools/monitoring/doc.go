// Package monitoring names the types of which test/chart makes CRDs.
package monitoring

import _ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1" // read by controller-gen
