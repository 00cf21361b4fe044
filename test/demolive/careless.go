package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/test/awscluster"
)

const carelessUsage = `usage: careless COMMAND
  tag RESOURCE KEY=VALUE   set a tag
  untag RESOURCE KEY       remove a tag
  open GROUP               let the whole world reach port 22 of a security group
  terminate INSTANCE       end an instance`

// beCareless does one thing to the simulated AWS that the environment leads to, as
// somebody who has not heard of Cluster API.
func beCareless(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	endpoint := os.Getenv("AWS_ENDPOINT_URL")
	if !strings.HasPrefix(endpoint, "http://127.0.0.1:") {
		_, _ = fmt.Fprintf(stderr, "error: AWS_ENDPOINT_URL is %q, and no simulator of this machine's: source %s of make first-hour\n", clean(endpoint), environmentFile)
		return exitUsage
	}
	o := &operator{aws: awscluster.ClientsFrom(aws.Config{
		Region: os.Getenv("AWS_REGION"), BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), ""),
	})}
	did, err := o.careless(ctx, args)
	switch {
	case errors.Is(err, errUsage):
		_, _ = fmt.Fprintln(stderr, carelessUsage)
		return exitUsage
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "error:", clean(err.Error()))
		return exitFailed
	}
	_, _ = fmt.Fprintln(stdout, "$ aws ec2", clean(did))
	return exitOK
}

var errUsage = errors.New("no such command")

// careless does what the words say, and gives it as one would type it.
func (o *operator) careless(ctx context.Context, args []string) (string, error) {
	switch {
	case len(args) == 3 && args[0] == "tag" && strings.Contains(args[2], "="):
		key, value, _ := strings.Cut(args[2], "=")
		_, err := o.aws.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: args[1:2], Tags: []types.Tag{{Key: &key, Value: &value}}})
		return fmt.Sprintf("create-tags --resources %s --tags Key=%s,Value=%s", args[1], key, value), err
	case len(args) == 3 && args[0] == "untag":
		_, err := o.aws.EC2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: args[1:2], Tags: []types.Tag{{Key: &args[2]}}})
		return fmt.Sprintf("delete-tags --resources %s --tags Key=%s", args[1], args[2]), err
	case len(args) == 2 && args[0] == "open":
		return fmt.Sprintf("authorize-security-group-ingress --group-id %s --protocol tcp --port 22 --cidr 0.0.0.0/0", args[1]), o.open(ctx, args[1])
	case len(args) == 2 && args[0] == "terminate":
		return "terminate-instances --instance-ids " + args[1], o.terminate(ctx, args[1])
	}
	return "", errUsage
}
