// Package policies holds the policy language (DriftPolicy), its loader and
// Decide, the third stage of the pipeline: findings and policies become
// decisions. Decide is pure; time is an argument.
package policies
