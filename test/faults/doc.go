// Package faults proves what holdfast controller does not do when what it reads
// is old, partial or wrong, when clouds and the API server fail, and when it is
// killed: nothing to the wrong object, nothing twice, and nothing is called
// missing that is there.
//
//   - stale: the parts that decide and act, in process, over a store that serves
//     what once was; an oracle that knows what is judges each act. By seeds:
//     -faults.seeds says how many, -faults.seed runs one and tells its story.
//   - fault and crash matrices: the program as users run it on the ground of
//     test/management, with toxiproxy, the simulators' fault tables, and a proxy
//     that kills it at a chosen write in between.
package faults
