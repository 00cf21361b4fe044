// Package faults proves what holdfast controller does not do when what it reads
// is old, partial or wrong, when clouds and the API server fail, and when it is
// killed: nothing to the wrong object, nothing twice, and nothing is called
// missing that is there.
//
//   - stale: the parts that decide and act, in process, over a store that serves
//     what once was; an oracle that knows what is judges each act. By seeds:
//     -faults.seeds says how many, -faults.seed runs one and tells its story.
//   - fault matrices: the program as users run it, on the grounds of
//     test/management and on moto, with toxiproxy, the simulators' fault tables
//     and what vCenter can answer in between, while something drifts.
//   - crash matrix: a proxy before every API server and cloud enumerates what the
//     program writes on each path of remediation, and kills it at each write.
//
// The usual run takes a short part of the matrices; -faults.every (make faults)
// all of them.
package faults
