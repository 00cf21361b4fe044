// Package chart tests charts/holdfast with the real Helm: what it renders, what
// its schema refuses, and, on a real API server, that every profile installs,
// upgrades, rolls back and goes, that its pods pass Pod Security "restricted", and
// that the program does its work as the chart's ServiceAccount with the chart's
// configuration. The schema of the values and the chart's README are generated
// here, from values.yaml.
package chart
