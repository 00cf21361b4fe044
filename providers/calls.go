package providers

import "time"

// CallStats counts the calls of one operation that came to one outcome, since
// the process began.
type CallStats struct {
	// Operation is the API's own name, after that of its service where there are
	// several: ec2:DescribeInstances. It is one of a closed list.
	Operation string
	// Code is the error's; empty for calls that worked.
	Code string
	// Throttled says that the cloud wanted to be called less often.
	Throttled bool
	// Count counts each attempt.
	Count int64
	// Waited is for how long these calls were held back before they were made,
	// to keep to a quota.
	Waited time.Duration
}

// Metered is implemented by providers that count their calls. CallStats does
// not block.
type Metered interface {
	CallStats() []CallStats
}
