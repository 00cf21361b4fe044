// Package canary holds the acceptance tests of what holdfast controller lets
// out: secrets that it comes across show nowhere, and text that an attacker
// wrote into a cloud is inert wherever it shows. The program runs as users have
// it, against a real API server and simulated clouds, and every sink is read.
package canary
