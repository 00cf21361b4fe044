// Package notify tells people of drift and of what was done about it: by
// webhook, Slack and whatever else shoutrrr (nicholas-fedor/shoutrrr) can send
// to.
//
// It stands at the end of the pipeline, as a sink of sweep outcomes beside
// conditions, records and metrics. It says only what is new: a finding when it
// comes up and when it goes, and the phases of a Remediation that somebody
// should know of. A sweep never waits for it: what is to be told is kept in a
// bounded place for each route and cluster, where it gathers into one message
// until the route's rate lets the message go.
//
// Its files follow a message's way: config (routes), state (what is new),
// pending (what waits), message and text (what it says, and what may stand in
// it), route and address (how it gets there). Nothing here writes to the
// management cluster or a cloud.
package notify
