package awscluster

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// Clients are the AWS APIs that a cluster is made with.
type Clients struct {
	EC2   *ec2.Client
	ELB   *elb.Client
	ELBV2 *elbv2.Client
	IAM   *iam.Client
}

// NewClients makes clients of one endpoint that serves all APIs, as simulators
// do, with credentials that such an endpoint does not check.
func NewClients(endpoint, region string) Clients {
	return ClientsFrom(aws.Config{
		Region:       region,
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider("AKIAEXAMPLEEXAMPLE00", "example", ""),
	})
}

// ClientsFrom makes clients of a configuration.
func ClientsFrom(cfg aws.Config) Clients {
	return Clients{
		EC2:   ec2.NewFromConfig(cfg),
		ELB:   elb.NewFromConfig(cfg),
		ELBV2: elbv2.NewFromConfig(cfg),
		IAM:   iam.NewFromConfig(cfg),
	}
}
