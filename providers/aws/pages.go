package aws

import (
	"context"
	"errors"
	"fmt"
)

// pageSize is the most that EC2 gives at once (DescribeInstances and most of
// its kin, MaxResults).
const pageSize int32 = 1000

// Page sizes of the calls that allow less.
const (
	routeTablePage   int32 = 100 // DescribeRouteTables
	egressOnlyPage   int32 = 255 // DescribeEgressOnlyInternetGateways
	loadBalancerPage int32 = 400 // both versions of Elastic Load Balancing
	tagBatch               = 20  // DescribeTags of both
	keyAliasPage     int32 = 100 // KMS, ListAliases
)

// mostPages stops a listing that never ends: 10 million resources of a kind
// are not to be expected.
const mostPages = 10_000

// errEndless marks a listing that AWS does not end.
var errEndless = errors.New("the listing does not end")

// pages calls read until it gives no further token. An empty page with a token
// is one like any other (EC2, "Query requests": fewer results than asked for,
// even none, may come with a token). A token that comes again would list the
// same for ever.
func pages(ctx context.Context, read func(ctx context.Context, token *string) (next *string, err error)) error {
	seen := map[string]bool{}
	var token *string
	for {
		next, err := read(ctx, token)
		if err != nil {
			return err
		}
		if next == nil || *next == "" {
			return nil
		}
		if seen[*next] {
			return fmt.Errorf("%w: page token %.60q came a second time", errEndless, *next)
		}
		if len(seen) == mostPages {
			return fmt.Errorf("%w after %d pages", errEndless, mostPages)
		}
		seen[*next] = true
		token = next
	}
}

// batches cuts a list into parts of at most n.
func batches[T any](list []T, n int) [][]T {
	var out [][]T
	for len(list) > n {
		out = append(out, list[:n:n])
		list = list[n:]
	}
	if len(list) > 0 {
		out = append(out, list)
	}
	return out
}
