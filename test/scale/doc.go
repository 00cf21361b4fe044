// Package scale holds the acceptance tests of what holdfast controller costs
// and how fast it is with a thousand machines and more, and of what it leaves
// behind after a long time: the program as users run it, a real API server, and
// simulated clouds. Tests assert what can be counted; benchmarks print times.
package scale
