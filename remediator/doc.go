// Package remediator is what becomes of decisions that act, without the
// controllers that drive it: the record of an action ([Spec]), how far it got
// ([Judge] and its kin, a pure state machine), how a value is set back in a
// cloud ([ChangeOf]), how a machine is emptied first ([Drainer]) or replaced
// through Cluster API ([Replacer]), and how to tell that it helped.
//
// It stands between policies, which decide, and reconcilers/remediation, which
// stores each step before it is taken.
package remediator
