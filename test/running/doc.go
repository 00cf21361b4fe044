// Package running runs holdfast controller, the program as users have it, for
// tests that measure it: with the objects of simulated clusters in a real API
// server, and a counter between the two that sees every request.
package running
