package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/aws/smithy-go/logging"

	"github.com/holdfast-io/holdfast/providers"
)

// session is one identity in one region, with the account that AWS reported
// for it and the clients that read there.
type session struct {
	account, region string
	// arn is the caller's, as AWS reported it.
	arn   string
	sts   *sts.Client
	ec2   *ec2.Client
	elb   *elasticloadbalancing.Client
	elbv2 *elasticloadbalancingv2.Client
	kms   *kms.Client
	sqs   *sqs.Client
	// secrets and ssm keep what machines boot with.
	secrets *secretsmanager.Client
	ssm     *ssm.Client
}

// sessionKey has the identity's digest rather than its name: the same name in
// another management cluster, or after its Secret was changed, is another
// identity. So one cluster's session never serves another cluster's identity.
type sessionKey struct{ region, digest string }

// sessions keeps sessions that worked. A failure is never kept.
type sessions struct {
	limit   *limiter
	count   *callCounter
	backoff func(attempt int) time.Duration

	mu   sync.Mutex
	open map[sessionKey]*slot
}

// slot serialises the first use of an identity, so that clusters which ask at
// once cost one call.
type slot struct {
	mu      sync.Mutex
	session *session
}

func (s *sessions) slot(key sessionKey) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[sessionKey]*slot{}
	}
	if s.open[key] == nil {
		s.open[key] = &slot{}
	}
	return s.open[key]
}

// get gives the session for an identity in a region; an empty region is the
// environment's.
func (s *sessions) get(ctx context.Context, who *principal, region string) (*session, error) {
	key := sessionKey{region: region}
	if who != nil {
		key.digest = who.digest
	}
	slot := s.slot(key)
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if slot.session != nil {
		return slot.session, nil
	}
	made, err := s.connect(ctx, who, region)
	if err != nil {
		return nil, err
	}
	slot.session = made
	return made, nil
}

// drop forgets a session whose credentials stopped working, so that the next
// use reads profiles and Secrets anew.
func (s *sessions) drop(dead *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, slot := range s.open {
		slot.mu.Lock()
		if slot.session == dead {
			delete(s.open, key)
		}
		slot.mu.Unlock()
	}
}

func (s *sessions) connect(ctx context.Context, who *principal, region string) (*session, error) {
	options := []func(*config.LoadOptions) error{
		config.WithRetryer(newRetryer(s.backoff)),
		config.WithAppID("holdfast"),
		// What the SDK would log ends up in an error as well.
		config.WithLogger(logging.Nop{}),
		config.WithHTTPClient(newHTTPClient()),
	}
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	if source := root(who); source != nil && source.access != nil {
		options = append(options, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(source.access.id, source.access.secret, source.access.token)))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, &providers.ScopeError{Reason: providers.ReasonCredentials, Err: withHint(fmt.Errorf("load the AWS configuration: %w", err), "check AWS_PROFILE, AWS_CONFIG_FILE and ~/.aws")}
	}
	if cfg.Region == "" {
		return nil, invalidSpec("the AWSCluster sets no spec.region, and the environment names none: set AWS_REGION")
	}
	cfg.HTTPClient = plainBodies{cfg.HTTPClient}
	s.assume(&cfg, who)
	made := &session{region: cfg.Region, sts: s.stsClient(cfg)}
	if made.account, made.arn, err = made.caller(ctx); err != nil {
		return nil, fmt.Errorf("identify the caller in %s: %w", cfg.Region, err)
	}
	made.sqs = s.sqsClient(cfg)
	cfg.APIOptions = append(cfg.APIOptions, observeCalls(s.count, s.limit, place{made.account, made.region}))
	made.kms = kms.NewFromConfig(cfg)
	made.secrets, made.ssm = secretsmanager.NewFromConfig(cfg), ssm.NewFromConfig(cfg)
	cfg.APIOptions = append(cfg.APIOptions, demandAnswers) // of the services that answer in XML
	made.ec2 = ec2.NewFromConfig(cfg)
	made.elb = elasticloadbalancing.NewFromConfig(cfg)
	made.elbv2 = elasticloadbalancingv2.NewFromConfig(cfg)
	return made, nil
}

// identifyAttempts bounds the tries to learn who the caller is: whoever has the
// wrong endpoint or no network is told so after seconds.
const identifyAttempts = 3

// stsClient is counted and not limited: STS publishes no quota near what
// Holdfast needs, and the account that quotas go by is not known before.
func (s *sessions) stsClient(cfg aws.Config) *sts.Client {
	return sts.NewFromConfig(cfg, func(o *sts.Options) {
		o.RetryMaxAttempts = identifyAttempts
		o.APIOptions = append(o.APIOptions, observeCalls(s.count, nil, place{}))
	})
}

// root is the far end of a chain of roles.
func root(who *principal) *principal {
	for who != nil && who.source != nil {
		who = who.source
	}
	return who
}

// assume replaces the configuration's credentials by the role's, role by role
// from the far end of the chain.
func (s *sessions) assume(cfg *aws.Config, who *principal) {
	if who == nil || who.role == nil {
		return
	}
	s.assume(cfg, who.source)
	spec := who.role.Spec
	provider := stscreds.NewAssumeRoleProvider(s.stsClient(*cfg), spec.RoleArn, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = "holdfast"
		if spec.SessionName != "" {
			o.RoleSessionName = spec.SessionName
		}
		if spec.ExternalID != "" {
			o.ExternalID = &spec.ExternalID
		}
		if spec.InlinePolicy != "" {
			o.Policy = &spec.InlinePolicy
		}
		o.PolicyARNs = policyARNs(spec.PolicyARNs)
		if spec.DurationSeconds != 0 {
			o.Duration = time.Duration(spec.DurationSeconds) * time.Second
		}
	})
	next := cfg.Copy()
	next.Credentials = aws.NewCredentialsCache(provider)
	*cfg = next
}

// caller asks AWS whose credentials these are. It needs no permission, so it
// fails only where the credentials or the way to AWS do.
func (s *session) caller(ctx context.Context) (account, arn string, err error) {
	out, err := s.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", "", scopeError(err)
	}
	if !isAccount(aws.ToString(out.Account)) {
		return "", "", &providers.ScopeError{Reason: providers.ReasonUnreachable, Err: fmt.Errorf("the endpoint answered with the account %q: want 12 digits", aws.ToString(out.Account))}
	}
	return *out.Account, aws.ToString(out.Arn), nil
}

// verify asks again before a read, so that credentials which expired or now
// belong to another account make everything unknown and nothing absent.
func (s *session) verify(ctx context.Context) error {
	account, _, err := s.caller(ctx)
	if err != nil {
		return fmt.Errorf("identify the caller in %s: %w", s.region, err)
	}
	if account != s.account {
		return &providers.ScopeError{Reason: providers.ReasonWrongAccount, Err: fmt.Errorf("the credentials belonged to account %s and now belong to %s", s.account, account)}
	}
	return nil
}

func policyARNs(arns []string) []ststypes.PolicyDescriptorType {
	var out []ststypes.PolicyDescriptorType
	for _, a := range arns {
		out = append(out, ststypes.PolicyDescriptorType{Arn: aws.String(a)})
	}
	return out
}
