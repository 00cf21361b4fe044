// Package servingcert keeps the certificate by which webhooks and conversions are
// served, in a Secret that all replicas share, and the CA that it is to be
// believed by in whatever tells the API server to ask them: webhook
// configurations, and CRDs that are converted.
//
// It makes certificate and CA itself and renews them in time, or takes what
// somebody else has put into the Secret, cert-manager for one.
//
// It stands before the manager and depends on nothing of it. Until the API server
// believes the certificate it converts nothing, and until it converts, a cache of
// kinds that are stored in an older version is never filled: what waits for caches
// or for a lease would wait for itself. So every replica does all of it, and all of
// it comes to the same whoever does it.
//
// No call is refused for a renewal. A new CA is first believed everywhere beside
// the one before it, and signs only when that has been seen; what it signs is read
// by each replica from the Secret itself, without a restart, and without waiting
// for a kubelet.
//
// github.com/open-policy-agent/cert-controller does much of this, and was found not
// to fit: it starts with the caches of a manager, changes the CA without a time in
// which both are believed, reads certificates from a mounted Secret, writes its CA
// into a CRD whoever converts it, and keeps every CRD in memory to do so.
package servingcert
