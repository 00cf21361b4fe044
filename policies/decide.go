package policies

// Decide says what to do about each finding. It is pure: equal inputs give
// equal decisions, in an order that does not depend on the order of findings.
func Decide(in Input) []Decision { return nil }

// Executable reports whether an executor may act on the decision: it changes
// something, its mode is enforce and nothing blocks it.
func (d *Decision) Executable() bool {
	return (d.Action == Patch || d.Action == Replace) && d.Mode == ModeEnforce &&
		len(d.Blocked) == 0 && d.Ignored == nil
}
