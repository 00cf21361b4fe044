// Package suites holds the acceptance suites: whole providers and the engine
// against simulated clouds, from objects as users have them to findings.
package suites
