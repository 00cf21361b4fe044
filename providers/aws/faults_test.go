package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/holdfast-io/holdfast/providers"
)

// scopeOf resolves the scope of a plain cluster.
func scopeOf(t *testing.T, p *Provider) providers.Scope {
	t.Helper()
	scope, err := p.Scope(t.Context(), observedCluster("c1"))
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

// hastyClock jumps ahead by whatever somebody waits for.
type hastyClock struct {
	clock.RealClock
	ahead atomic.Int64
}

func (h *hastyClock) Now() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

func (h *hastyClock) NewTimer(d time.Duration) clock.Timer {
	h.ahead.Add(int64(d))
	return h.RealClock.NewTimer(0)
}

// C47: a quota that is used up on page 3 of 5. While the SDK's attempts last
// the page is read again; when they are used up the kind is unknown as a
// whole, and no other kind is.
func TestC47ThrottledOnPageThree(t *testing.T) {
	for name, tc := range map[string]struct {
		refusals int
		want     int
		failed   bool
	}{
		"for a while": {refusals: 2, want: 5},
		"for good":    {refusals: 1000, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFakeAWS(t)
			refused := 0
			aws.on("ec2.DescribeInstances", func(_ int, form url.Values) (int, string) {
				page := 1
				if token := form.Get("NextToken"); token != "" {
					_, _ = fmt.Sscanf(token, "page-%d", &page)
				}
				if page == 3 && refused < tc.refusals {
					refused++
					return refuse("RequestLimitExceeded", "Request limit exceeded.")
				}
				next := ""
				if page < 5 {
					next = fmt.Sprintf("page-%d", page+1)
				}
				return http.StatusOK, ec2Answer("DescribeInstances", instanceItems(fmt.Sprintf("i-%d", page)), next)
			})
			aws.on("ec2.DescribeVpcs", func(int, url.Values) (int, string) {
				return http.StatusOK, ec2Answer("DescribeVpcs", "<vpcSet><item><vpcId>vpc-1</vpcId><cidrBlock>10.0.0.0/16</cidrBlock></item></vpcSet>", "")
			})
			p := provider(t)
			snap, err := p.Observe(t.Context(), scopeOf(t, p))
			if err != nil {
				t.Fatal(err)
			}
			if got := len(snap.OfKind(providers.KindInstance)); got != tc.want {
				t.Errorf("%d instances in the snapshot, want %d: a partial listing proves nothing", got, tc.want)
			}
			if err := snap.Coverage[providers.KindInstance]; (err != nil) != tc.failed {
				t.Errorf("coverage of instances is %v", err)
			} else if tc.failed && (!isThrottle(err) || !strings.Contains(err.Error(), "observe instances in aws/123456789012/eu-central-1")) {
				t.Errorf("coverage says %q: want what, where and why", err)
			}
			if len(snap.OfKind(providers.KindVPC)) != 1 || snap.Coverage[providers.KindVPC] != nil {
				t.Error("the failure of instances took the VPCs with it")
			}
			if tc.failed && refused != maxAttempts {
				t.Errorf("page 3 was tried %d times, want %d", refused, maxAttempts)
			}
			// Jitter leaves at least half of the first pause and of the second,
			// which is twice as long.
			const least = firstPause/2 + firstPause
			if waited := time.Duration(p.clock.(*hastyClock).ahead.Load()); waited < least {
				t.Errorf("waited %s after %d refusals: whoever is throttled has to slow down", waited, refused)
			}
			throttles, waits := 0, time.Duration(0)
			for _, c := range p.CallStats() {
				if c.Throttled {
					throttles += int(c.Count)
				}
				if c.Operation == "ec2:DescribeInstances" {
					waits += c.Waited
				}
			}
			if throttles != refused || waits <= 0 {
				t.Errorf("%d throttled calls and %s of waiting are counted, want %d and some", throttles, waits, refused)
			}
			if n := p.Calls()[Call{serviceEC2, "DescribeInstances", "RequestLimitExceeded"}]; n != int64(refused) {
				t.Errorf("%d throttled calls counted, want %d", n, refused)
			}
		})
	}
}

func TestPagesOfInstances(t *testing.T) {
	for name, tc := range map[string]struct {
		pages map[string]string // by token: "items|next"
		want  int
		err   error
	}{
		"an empty page in the middle": {pages: map[string]string{"": "i-1|a", "a": "|b", "b": "i-2|"}, want: 2},
		"an empty first page":         {pages: map[string]string{"": "|a", "a": "i-1|"}, want: 1},
		"a token that comes again":    {pages: map[string]string{"": "i-1|a", "a": "i-2|a"}, err: errEndless},
		"tokens in a circle":          {pages: map[string]string{"": "i-1|a", "a": "i-2|b", "b": "i-3|a"}, err: errEndless},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFakeAWS(t)
			aws.on("ec2.DescribeInstances", func(_ int, form url.Values) (int, string) {
				items, next, _ := strings.Cut(tc.pages[form.Get("NextToken")], "|")
				body := ""
				if items != "" {
					body = instanceItems(items)
				}
				return http.StatusOK, ec2Answer("DescribeInstances", body, next)
			})
			p := provider(t)
			snap, err := p.Observe(t.Context(), scopeOf(t, p))
			if err != nil {
				t.Fatal(err)
			}
			if err := snap.Coverage[providers.KindInstance]; !errors.Is(err, tc.err) {
				t.Errorf("coverage is %v, want %v", err, tc.err)
			}
			if got := len(snap.OfKind(providers.KindInstance)); got != tc.want {
				t.Errorf("%d instances, want %d", got, tc.want)
			}
		})
	}
}

// What is refused for one kind says nothing of the others.
func TestAKindThatIsNotPermitted(t *testing.T) {
	aws := newFakeAWS(t)
	aws.on("ec2.DescribeVolumes", func(int, url.Values) (int, string) {
		return refuse("UnauthorizedOperation", "You are not authorized to perform this operation.")
	})
	aws.on("elb.DescribeLoadBalancers", func(int, url.Values) (int, string) {
		return refuseQuery("AccessDenied", "not authorized to perform: elasticloadbalancing:DescribeLoadBalancers")
	})
	aws.on("ec2.DescribeInstances", func(int, url.Values) (int, string) {
		return http.StatusOK, ec2Answer("DescribeInstances", instanceItems("i-1"), "")
	})
	p := provider(t)
	snap, err := p.Observe(t.Context(), scopeOf(t, p))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		providers.KindVolume: true, partRootVolume: true, partOtherVolumes: true,
		providers.KindLoadBalancer: true, partRegistrations: true,
		partTags: true, partAttributes: true, partListeners: true, partTargetGroups: true, partTargets: true,
	}
	for key, err := range snap.Coverage {
		if (err != nil) != want[key] {
			t.Errorf("coverage of %s is %v", key, err)
		}
		delete(want, key)
	}
	for key := range want {
		t.Errorf("no coverage for %s", key)
	}
	i := snap.Resources[providers.ID{Kind: providers.KindInstance, Name: "i-1"}]
	if i == nil || i.Closes("/rootVolume/size") || i.Closes("/nonRootVolumes") || i.Closes("/loadBalancers/c1") {
		t.Errorf("instance %+v closes what could not be read", i)
	}
}

// A missing permission for half of a kind makes the kind unknown: the other
// half must not stand for the whole.
func TestHalfOfAKind(t *testing.T) {
	aws := newFakeAWS(t)
	aws.on("ec2.DescribeEgressOnlyInternetGateways", func(int, url.Values) (int, string) {
		return refuse("UnauthorizedOperation", "no")
	})
	aws.on("ec2.DescribeInternetGateways", func(int, url.Values) (int, string) {
		return http.StatusOK, ec2Answer("DescribeInternetGateways", "<internetGatewaySet><item><internetGatewayId>igw-1</internetGatewayId></item></internetGatewaySet>", "")
	})
	p := provider(t)
	snap, err := p.Observe(t.Context(), scopeOf(t, p))
	if err != nil {
		t.Fatal(err)
	}
	if snap.Coverage[providers.KindInternetGateway] == nil || len(snap.OfKind(providers.KindInternetGateway)) != 0 {
		t.Errorf("coverage %v with %d gateways, want an error and none", snap.Coverage[providers.KindInternetGateway], len(snap.OfKind(providers.KindInternetGateway)))
	}
}

// Refused credentials never become a snapshot without resources: whether they
// are refused at once, from the second call on or half-way through a listing.
func TestRefusedCredentials(t *testing.T) {
	for code, hint := range map[string]string{
		"AuthFailure":           "enabled the region",
		"ExpiredToken":          "renew",
		"InvalidClientTokenId":  "unknown to AWS",
		"SignatureDoesNotMatch": "secret key",
	} {
		t.Run("at first/"+code, func(t *testing.T) {
			aws := newFakeAWS(t)
			aws.on("sts.GetCallerIdentity", func(int, url.Values) (int, string) { return refuseQuery(code, "no") })
			_, err := provider(t).Scope(t.Context(), observedCluster("c1"))
			wantScopeError(t, err, providers.ReasonCredentials, hint)
		})
		t.Run("before a sweep/"+code, func(t *testing.T) {
			aws := newFakeAWS(t)
			p := provider(t)
			scope := scopeOf(t, p)
			aws.on("sts.GetCallerIdentity", func(int, url.Values) (int, string) { return refuseQuery(code, "no") })
			_, err := p.Observe(t.Context(), scope)
			wantScopeError(t, err, providers.ReasonCredentials, hint)
			_, err = p.Confirm(t.Context(), scope, []providers.ID{{Kind: providers.KindInstance, Name: "i-1"}})
			wantScopeError(t, err, providers.ReasonCredentials, hint)
		})
		t.Run("in a sweep/"+code, func(t *testing.T) {
			aws := newFakeAWS(t)
			aws.on("ec2.DescribeSubnets", func(int, url.Values) (int, string) { return refuse(code, "no") })
			p := provider(t)
			_, err := p.Observe(t.Context(), scopeOf(t, p))
			wantScopeError(t, err, providers.ReasonCredentials, hint)
		})
	}
}

// C49: a failure is not cached: when the credentials are good again, so is the
// next call.
func TestC49FailuresAreNotCached(t *testing.T) {
	aws := newFakeAWS(t)
	aws.on("sts.GetCallerIdentity", func(n int, _ url.Values) (int, string) {
		if n == 1 || n == 3 {
			return refuseQuery("ExpiredToken", "no")
		}
		return http.StatusOK, aws.standard(fakeCall{action: "sts.GetCallerIdentity"})
	})
	p := provider(t)
	if _, err := p.Scope(t.Context(), observedCluster("c1")); err == nil {
		t.Fatal("no error at first")
	}
	scope := scopeOf(t, p)
	if _, err := p.Observe(t.Context(), scope); err == nil {
		t.Fatal("no error in between")
	}
	if _, err := p.Observe(t.Context(), scope); err != nil {
		t.Errorf("after the credentials came back: %v", err)
	}
}

func TestNoCredentials(t *testing.T) {
	newFakeAWS(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	_, err := provider(t).Scope(t.Context(), observedCluster("c1"))
	wantScopeError(t, err, providers.ReasonCredentials, "AWS_PROFILE")
}

func TestUnknownProfile(t *testing.T) {
	newFakeAWS(t)
	t.Setenv("AWS_PROFILE", "no-such-profile")
	_, err := provider(t).Scope(t.Context(), observedCluster("c1"))
	wantScopeError(t, err, providers.ReasonCredentials, "no-such-profile")
}

func TestUnreachable(t *testing.T) {
	aws := newFakeAWS(t)
	aws.Close()
	_, err := provider(t).Scope(t.Context(), observedCluster("c1"))
	wantScopeError(t, err, providers.ReasonUnreachable, "connection refused")
}

// The account changes under a running process, as it does when a profile is
// pointed elsewhere: everything would look missing.
func TestAccountThatChanges(t *testing.T) {
	aws := newFakeAWS(t)
	p := provider(t)
	scope := scopeOf(t, p)
	aws.on("sts.GetCallerIdentity", func(int, url.Values) (int, string) {
		return http.StatusOK, strings.ReplaceAll(aws.standard(fakeCall{action: "sts.GetCallerIdentity"}), "123456789012", "999999999999")
	})
	_, err := p.Observe(t.Context(), scope)
	wantScopeError(t, err, providers.ReasonWrongAccount, "999999999999")
	if aws.count("ec2.DescribeInstances") != 0 {
		t.Error("the other account was read all the same")
	}
	_, err = p.Confirm(t.Context(), scope, []providers.ID{{Kind: providers.KindInstance, Name: "i-1"}})
	wantScopeError(t, err, providers.ReasonWrongAccount, "999999999999")
}

// A whole region fails, in each of the ways that regions have failed: nothing
// of it is absent, every kind has its reason, and the sweep ends.
func TestPlatformRegionOutage(t *testing.T) {
	ids := []providers.ID{{Kind: providers.KindInstance, Name: "i-1"}, {Kind: providers.KindVPC, Name: "vpc-1"}, {Kind: providers.KindLoadBalancer, Name: "classic/c1"}}
	for name, fail := range map[string]func(http.ResponseWriter){
		"unavailable": func(w http.ResponseWriter) {
			status, body := refuse("Unavailable", "The service is unavailable.")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		},
		"internal error": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"gateway page": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>Bad Gateway</html>")
		},
		"half an answer": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<DescribeInstancesResponse><reservationSet>") },
		"an empty body":  func(http.ResponseWriter) {},
		"another's page": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html><body>Sign in to continue</body></html>") },
		"another call's": func(w http.ResponseWriter) { _, _ = io.WriteString(w, ec2Answer("DescribeNothing", "", "")) },
		"hangs up":       func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFakeAWS(t)
			p := provider(t)
			scope := scopeOf(t, p)
			aws.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.Header.Get("Authorization"), "/sts/") {
					aws.ServeHTTP(w, r)
					return
				}
				fail(w)
			})
			snap, err := p.Observe(t.Context(), scope)
			if err == nil {
				if len(snap.Resources) != 0 {
					t.Errorf("%d resources of a region that does not answer", len(snap.Resources))
				}
				for _, row := range Registration().Catalog {
					if err, known := snap.Covered(row.Kind, ""); known && err == nil {
						t.Fatalf("%s was read in full from a region that does not answer", row.Kind)
					}
				}
			}
			c, err := p.Confirm(t.Context(), scope, ids)
			for _, id := range ids {
				if err == nil && c.Unconfirmed[id] == nil {
					t.Errorf("%s counts as absent", id)
				}
			}
		})
	}
}

func TestCancelledContext(t *testing.T) {
	aws := newFakeAWS(t)
	p := provider(t)
	scope := scopeOf(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	aws.on("ec2.DescribeVolumes", func(int, url.Values) (int, string) {
		cancel()
		return refuse("Unavailable", "later")
	})
	snap, err := p.Observe(ctx, scope)
	if !errors.Is(err, context.Canceled) || snap != nil {
		t.Errorf("a cancelled sweep gives %v and %v: want no snapshot and the context's error", snap, err)
	}
	if _, err := p.Scope(ctx, observedCluster("c2")); err != nil {
		t.Errorf("a cancelled context keeps a known session from use: %v", err)
	}
}

func wantScopeError(t *testing.T, err error, reason, text string) {
	t.Helper()
	var scope *providers.ScopeError
	if !errors.As(err, &scope) {
		t.Fatalf("error is %v: want a ScopeError", err)
	}
	if diff := cmp.Diff(reason, scope.Reason); diff != "" {
		t.Errorf("reason of %q (-want +got):\n%s", err, diff)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("error %q does not say %q", err, text)
	}
}
