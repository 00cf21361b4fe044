// Package metrics tells Prometheus what sweeps came to, what remediations do,
// how policies fare and what clouds are asked for. It stands at the end of the
// pipeline and decides nothing.
//
// Every series is in one table ([Table]), from which docs/metrics.md is made.
// Labels have values of closed or configured lists only: names of clusters,
// pools, policies and rules, kinds, statuses, gates, API operations. What a
// cloud says, a tag, a name, an id, a message, is never one, so that the number
// of series does not depend on it. Values are computed when they are asked for,
// from what is known of clusters that exist: the series of a cluster go with it.
package metrics
