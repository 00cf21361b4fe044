// Package e2e holds the acceptance tests of holdfast controller: the program as
// users run it, beside upstream's Cluster API on the ground of test/management,
// while somebody or something tampers with the clouds.
package e2e
