package aws

import (
	"fmt"
	"strings"

	awsarn "github.com/aws/aws-sdk-go-v2/aws/arn"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// AccountAnnotation on a Cluster or AWSCluster says which AWS account it must
// be in.
const AccountAnnotation = "drift.holdfast.io/aws-account"

// checkAccount compares the account that AWS reported for the caller with
// every account that the owner's objects name. Reading another account would
// show all of the cluster as missing.
func checkAccount(owner *providers.Owner, cluster *infrav1.AWSCluster, who *principal, account string) error {
	for _, e := range expectedAccounts(owner, cluster, who) {
		if !isAccount(e.account) {
			return invalidSpec("%s names the account %q: want 12 digits", e.from, e.account)
		}
		if e.account != account {
			return &providers.ScopeError{Reason: providers.ReasonWrongAccount, Err: fmt.Errorf(
				"the credentials belong to account %s, and %s names account %s: use the cluster's own identity or profile", account, e.from, e.account)}
		}
	}
	return nil
}

type expectation struct{ account, from string }

func expectedAccounts(owner *providers.Owner, cluster *infrav1.AWSCluster, who *principal) []expectation {
	var out []expectation
	if a, ok := owner.Cluster.Annotations[AccountAnnotation]; ok {
		out = append(out, expectation{a, "annotation " + AccountAnnotation + " of Cluster " + owner.Cluster.Name})
	}
	if a, ok := cluster.Annotations[AccountAnnotation]; ok {
		out = append(out, expectation{a, "annotation " + AccountAnnotation + " of AWSCluster " + cluster.Name})
	}
	if who != nil && who.role != nil {
		out = appendARN(out, who.role.Spec.RoleArn, "spec.roleARN of "+who.name)
	}
	status := cluster.Status.Network
	out = appendARN(out, status.APIServerELB.ARN, "status.networkStatus.apiServerElb.arn of AWSCluster "+cluster.Name)
	return appendARN(out, status.SecondaryAPIServerELB.ARN, "status.networkStatus.secondaryAPIServerELB.arn of AWSCluster "+cluster.Name)
}

func appendARN(out []expectation, s, from string) []expectation {
	parsed, err := awsarn.Parse(s)
	if err != nil || parsed.AccountID == "" {
		return out
	}
	return append(out, expectation{parsed.AccountID, from})
}

func isAccount(s string) bool {
	return len(s) == 12 && strings.Trim(s, "0123456789") == ""
}
