// Package policytest runs test cases of policies: folders with a policy, the
// findings to decide about, and the decisions that are expected. It stands
// beside package policies in the pipeline and does no I/O but reading the
// folders, and writing expected.yaml when asked to.
//
// A case is a folder with
//
//	policy.yaml     the policies, optional; or a folder policies/
//	input.yaml      findings and facts, see Input
//	expected.yaml   the decisions in order, see Expected
//
// Facts that the input leaves out are those of a healthy cluster in which
// nothing else happens, so that a case only says what matters to it.
package policytest
