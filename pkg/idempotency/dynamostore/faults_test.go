package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/testkit/faultproxy"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
)

// TestWire breaks each request of a call between the SDK and the engine, in every way. The function succeeds once, its
// effect happens once, and the next call gets the same result. No attempt is repeated by the SDK, so the Runner sees
// each failure.
func TestWire(t *testing.T) {
	t.Parallel()
	endpoint := testengine.Dynoxide(t)
	table := newClient(t, endpoint)
	for name, effects := range map[string]bool{"alone": false, "with-effects": true} {
		play := func(t *testing.T, key string, plan func(int, string) faultproxy.Fault) []string {
			return wirePlay(t, endpoint, counters{table}, effects, key, plan)
		}
		operations := play(t, name, func(int, string) faultproxy.Fault { return faultproxy.None })
		for at, operation := range operations {
			for _, fault := range faultproxy.Of(operation) {
				key := fmt.Sprintf("%s-%d-%s-%s", name, at, operation, fault)
				t.Run(key, func(t *testing.T) {
					t.Parallel()
					play(t, key, func(n int, _ string) faultproxy.Fault {
						if n == at {
							return fault
						}
						return faultproxy.None
					})
				})
			}
		}
	}
}

var errFirst = errors.New("fails first")

func wirePlay(
	t *testing.T, endpoint string, counted counters, effects bool, key string, plan func(int, string) faultproxy.Fault,
) []string {
	t.Helper()
	proxy := faultproxy.New(t, endpoint, plan)
	client := dynamodb.New(itembankengines.Client(proxy.URL, nil).Options(), func(o *dynamodb.Options) {
		o.Retryer = aws.NopRetryer{}
	})
	runner, err := idempotency.New(dynamostore.New(client, table), "wire", idempotency.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	fn := func(_ context.Context, e idempotency.Execution, _ int) (string, error) {
		if runs++; runs == 1 {
			return "", errFirst
		}
		if effects {
			e.Commit(dynamostore.Effects(add(key)))
		}
		return fmt.Sprint("run ", runs), nil
	}
	for n, want := range []error{errFirst, nil, nil} {
		var out idempotency.Outcome[string]
		for range 5 {
			if out, err = idempotency.Do(t.Context(), runner, key, 0, fn); !errors.Is(err, idempotency.ErrTryAgain) {
				break
			}
		}
		if !errors.Is(err, want) || want == nil && out.Value != "run 2" || out.Replayed != (n == 2) {
			t.Errorf("call %d: got %+v, %v", n, out, err)
		}
	}
	if n := counted.Count(t, key); runs != 2 || effects && n != 1 {
		t.Errorf("got %d runs and %d effects", runs, n)
	}
	return proxy.Operations()
}
